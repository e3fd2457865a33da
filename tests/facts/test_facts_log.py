"""The list that only grows: it behaves as a tuple does, and no log sees another's items."""

from hypothesis import given
from hypothesis import strategies as st

from harnessd.facts.log import Log

SLICES = st.slices(12)


@given(items=st.lists(st.integers(), max_size=12), hidden=st.integers(0, 3), cut=SLICES)
def test_a_log_reads_as_a_tuple_does(items: list[int], hidden: int, cut: slice) -> None:
    log = Log(items)
    log.append(*range(hidden))  # a longer log on the same buffer must not show through
    assert tuple(log) == tuple(items)
    assert log[cut] == items[cut]
    assert list(reversed(log)) == items[::-1]
    assert log[::-1] == items[::-1]
    assert [log[at] for at in range(-len(items), len(items))] == items + items


@given(st.lists(st.tuples(st.integers(0, 20), st.integers()), max_size=40))
def test_appending_to_any_earlier_log_never_changes_another(steps: list[tuple[int, int]]) -> None:
    logs: list[tuple[Log[int], tuple[int, ...]]] = [(Log(), ())]
    for which, item in steps:
        log, shadow = logs[which % len(logs)]
        logs.append((log.append(item), (*shadow, item)))
    assert all(tuple(log) == shadow and len(log) == len(shadow) for log, shadow in logs)


def test_equal_logs_are_equal_whatever_their_buffers_hold() -> None:
    base: Log[int] = Log([1, 2])
    base.append(3)
    assert base == Log([1, 2])
    assert base != Log([1, 2, 3])
    assert hash(base) == hash(Log([1, 2]))
