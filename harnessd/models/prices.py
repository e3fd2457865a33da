"""What a model can hold and what it costs, read from litellm's own map without importing litellm.

The map is a JSON file of some 3 MB. `load` parses it in a thread, at most once per process, after the first
request was sent, and keeps one small record for each chat model. With a cache folder it also leaves a small
index there, named after the map's size and time, so that later processes never parse the map.
"""

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import orjson

from harnessd.facts.message import Usage
from harnessd.models.prefixes import is_local, is_offline

_MAP = "model_prices_and_context_window_backup.json"
_FIELDS = (
    "max_input_tokens",
    "max_output_tokens",
    "input_cost_per_token",
    "output_cost_per_token",
    "cache_read_input_token_cost",
    "cache_creation_input_token_cost",
    "litellm_provider",
)
_FORM = 2
"""The form of a row, part of the index's name: an index of another form is not read."""


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """Windows in tokens, prices in US dollars per token; None where the map does not say."""

    context_window: int | None = None
    max_output: int | None = None
    input_price: float | None = None
    output_price: float | None = None
    cached_price: float | None = None
    cache_write_price: float | None = None


class Prices:
    """Looks up models by name, with or without a provider's prefix. Knows nothing until loaded."""

    def __init__(self, *, cache_dir: Path | None = None, source: Path | None = None) -> None:
        self._cache_dir = cache_dir
        self._source = source
        self._table: dict[str, list[Any]] | None = None
        self._providers: frozenset[str] = frozenset()
        self._lock: anyio.Lock | None = None

    async def load(self) -> None:
        """Read the table if that was not done yet; costs one thread some 20 ms once per process."""
        if self._table is not None:
            return
        if self._lock is None:
            self._lock = anyio.Lock()
        async with self._lock:
            if self._table is None:
                self._keep(await anyio.to_thread.run_sync(self._read))

    def load_now(self) -> None:
        """The same for callers outside the event loop (`doctor`, a prefix that our own table lacks)."""
        if self._table is None:
            self._keep(self._read())

    def limits(self, model: str) -> ModelLimits | None:
        """The model's limits, or None: not in the map, or the map is not loaded yet."""
        row = self._find(model)
        return ModelLimits(*row[:6]) if row else None

    def cost(self, usage: Usage, model: str) -> float | None:
        """What that usage costs in US dollars, or None when the price is not known."""
        if is_offline(model):
            return 0.0
        limits = self.limits(model)
        if limits is None or limits.input_price is None or limits.output_price is None:
            return None
        cached = min(usage.cached_tokens, usage.input_tokens)
        written = min(usage.cache_write_tokens, usage.input_tokens - cached)
        cached_price = limits.input_price if limits.cached_price is None else limits.cached_price
        write_price = limits.input_price if limits.cache_write_price is None else limits.cache_write_price
        paid = (usage.input_tokens - cached - written) * limits.input_price
        paid += cached * cached_price + written * write_price
        return paid + usage.output_tokens * limits.output_price

    def knows_provider(self, name: str) -> bool:
        """Whether litellm's map has models of that provider."""
        self.load_now()
        return name in self._providers

    @property
    def providers(self) -> frozenset[str]:
        """The providers that litellm's map has models of; none before it is loaded."""
        return self._providers

    def _find(self, model: str) -> list[Any] | None:
        table = self._table or {}
        name = model
        while True:
            if row := table.get(name):
                return row
            # The same weights served on one's own machine have another window and no price.
            if is_local(model):
                return None
            _, slash, name = name.partition("/")
            if not slash:
                return None

    def _keep(self, table: dict[str, list[Any]]) -> None:
        self._table = table
        self._providers = frozenset(str(row[6]) for row in table.values())

    def _read(self) -> dict[str, list[Any]]:
        source = self._source or _find_map()
        try:
            stamp = source.stat() if source else None
        except OSError:
            stamp = None
        if source is None or stamp is None:
            return {}
        index = (
            self._cache_dir / f"models-{_FORM}-{stamp.st_size:x}-{stamp.st_mtime_ns:x}.json"
            if self._cache_dir
            else None
        )
        if index and (table := _read_index(index)):
            return table
        try:
            table = _shorten(orjson.loads(source.read_bytes()))
        except (OSError, orjson.JSONDecodeError):
            return {}
        if index:
            _write_index(index, table)
        return table


def _find_map() -> Path | None:
    spec = importlib.util.find_spec("litellm")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / _MAP


def _shorten(full: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {
        name: [row.get(field) for field in _FIELDS]
        for name, row in full.items()
        if isinstance(row, dict) and row.get("mode") in {"chat", "responses", "completion"} and name != "sample_spec"
    }


def _read_index(index: Path) -> dict[str, list[Any]] | None:
    try:
        table = orjson.loads(index.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return table if isinstance(table, dict) else None


def _write_index(index: Path, table: Mapping[str, list[Any]]) -> None:
    """A cache that cannot be written is no failure; the map is parsed again next time."""
    partial = index.with_name(f"{index.name}.{os.getpid()}")
    try:
        index.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(orjson.dumps(table))
        partial.replace(index)
    except OSError:
        partial.unlink(missing_ok=True)
