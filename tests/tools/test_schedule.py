"""Readers together, writers alone and in order."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from harnessd.tools.schedule import plan


@dataclass(frozen=True)
class Mark:
    effect: str
    concurrency_safe: bool = False
    number: int = 0


marks = st.lists(st.builds(Mark, st.sampled_from(["read", "write"]), st.booleans(), st.integers()), max_size=30)


@given(marks)
def test_calls_keep_their_order_and_no_plain_writer_has_company(calls: list[Mark]) -> None:
    batches = plan(calls)
    assert [call for batch in batches for call in batch] == calls
    for batch in batches:
        assert batch
        alone = [call for call in batch if call.effect == "write" and not call.concurrency_safe]
        assert not alone or len(batch) == 1


def test_readers_next_to_each_other_run_together() -> None:
    reader, writer = Mark("read"), Mark("write")
    assert [len(batch) for batch in plan([reader, reader, writer, reader, writer, writer])] == [2, 1, 1, 1, 1]
