"""Are points spread over all of a run, the same ones each time?"""

from hypothesis import given
from hypothesis import strategies as st

from harnessd.cli.conformance.points import Extent, Point, every_point, spread

counts = st.integers(0, 200)


@given(st.integers(0, 300), st.integers(1, 300), st.text())
def test_a_sample_is_even_and_repeats(total: int, most: int, seed: str) -> None:
    points = tuple(Point("step", number) for number in range(total))
    chosen = spread(points, most, seed=seed)
    assert len(chosen) == min(total, most)
    assert len(set(chosen)) == len(chosen)
    assert chosen == spread(points, most, seed=seed)
    places = [int(point.at) for point in chosen]
    assert places == sorted(places)
    # No stretch of the run is left out.
    gaps = [after - before for before, after in zip([-1, *places], [*places, total], strict=True)]
    assert max(gaps) <= 2 * max(1, total / most) + 1


@given(counts, counts, counts, counts)
def test_each_step_effect_and_request_is_a_point(steps: int, effects: int, requests: int, told: int) -> None:
    extent = Extent(steps, effects, requests, told, 1.0)
    inside = every_point(extent, seed="a", instants=3, inside=True)
    outside = every_point(extent, seed="a", instants=3, inside=False)
    assert sum(point.kind == "step" and not point.again for point in inside) == steps
    assert sum(point.kind == "told" for point in outside) == told
    assert not any(point.kind == "step" or point.again for point in outside)
    for points in (inside, outside):
        assert sum(point.kind == "before_effect" for point in points) == effects
        assert sum(point.kind == "after_effect" for point in points) == effects
        assert sum(point.kind == "asked" for point in points) == requests
        assert len({point.name for point in points}) == len(points)
    assert [p for p in inside if p.kind == "instant"] == [p for p in outside if p.kind == "instant"]
