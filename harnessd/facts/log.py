"""A list that only grows and never copies: how state holds the model's context."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, get_args, overload

from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema

T = TypeVar("T")


class Log(Sequence[T], Generic[T]):
    """An immutable sequence whose `append` returns a longer one in constant time.

    Both share one buffer and differ in how much of it they see. An older log that is appended to a second
    time copies its part first, so that no log ever sees another's items.
    """

    __slots__ = ("_buffer", "_length")

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._buffer = list(items)
        self._length = len(self._buffer)

    def append(self, *items: T) -> "Log[T]":
        """A log with `items` at its end; this one stays as it is."""
        longer: Log[T] = Log.__new__(Log)
        longer._buffer = self._buffer if len(self._buffer) == self._length else self._buffer[: self._length]
        longer._buffer.extend(items)
        longer._length = len(longer._buffer)
        return longer

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if step == 1:
                return self._buffer[start:stop]
            return [self._buffer[position] for position in range(start, stop, step)]
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._buffer[index if index >= 0 else self._length + index]

    def __iter__(self) -> Iterator[T]:
        for position in range(self._length):
            yield self._buffer[position]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Log) and self._buffer[: self._length] == other._buffer[: other._length]

    def __hash__(self) -> int:
        return hash((self._length, tuple(self)))

    def __repr__(self) -> str:
        return f"Log({self._buffer[: self._length]!r})"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        (item,) = get_args(source) or (Any,)
        return core_schema.union_schema(
            [
                core_schema.is_instance_schema(cls),
                core_schema.no_info_after_validator_function(
                    cls, core_schema.list_schema(handler.generate_schema(item))
                ),
            ],
            mode="left_to_right",
            serialization=core_schema.plain_serializer_function_ser_schema(
                list, return_schema=core_schema.list_schema(handler.generate_schema(item))
            ),
        )
