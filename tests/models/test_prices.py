"""Windows and prices: from litellm's map, without litellm; costs add up."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessd.facts.message import Usage
from harnessd.models.models import Models
from harnessd.models.prices import Prices

PRICES = Prices()
PRICES.load_now()


@pytest.mark.parametrize(
    ("model", "window"),
    [("openai/gpt-5-mini", 272_000), ("gpt-5-mini", 272_000), ("anthropic/claude-sonnet-4-5", 200_000)],
)
def test_windows_are_known_with_and_without_prefix(model, window) -> None:
    limits = PRICES.limits(model)
    assert limits is not None
    assert limits.context_window == window


def test_unknown_models_have_no_limits_and_no_cost() -> None:
    assert PRICES.limits("openai/nobody") is None
    assert PRICES.cost(Usage(input_tokens=5), "openai/nobody") is None
    # The same name on one's own machine is not the provider's model.
    assert PRICES.cost(Usage(input_tokens=5), "ollama/gpt-5-mini") is None
    assert PRICES.cost(Usage(input_tokens=5), "offline") == 0.0


def test_l5_cached_tokens_cost_their_own_price() -> None:
    limits = PRICES.limits("openai/gpt-5-mini")
    assert limits is not None
    assert limits.input_price is not None
    assert limits.cached_price is not None
    cost = PRICES.cost(Usage(input_tokens=100, cached_tokens=60), "openai/gpt-5-mini")
    assert cost == pytest.approx(40 * limits.input_price + 60 * limits.cached_price)


def test_l5_tokens_written_to_the_cache_cost_their_own_price() -> None:
    limits = PRICES.limits("anthropic/claude-sonnet-4-5")
    assert limits is not None
    assert limits.input_price is not None
    assert limits.cache_write_price is not None
    assert limits.cache_write_price > limits.input_price
    cost = PRICES.cost(Usage(input_tokens=100, cache_write_tokens=60), "anthropic/claude-sonnet-4-5")
    assert cost == pytest.approx(40 * limits.input_price + 60 * limits.cache_write_price)


counts = st.integers(0, 1_000_000)
usages = st.builds(
    lambda given, made, cached: Usage(input_tokens=given, output_tokens=made, cached_tokens=min(given, cached)),
    counts,
    counts,
    counts,
)


@given(st.lists(usages, min_size=1, max_size=6))
def test_l5_the_cost_of_a_sum_is_the_sum_of_the_costs(usages) -> None:
    total, model = Usage(cost=0.0), "openai/gpt-5-mini"
    for usage in usages:
        total += usage.model_copy(update={"cost": PRICES.cost(usage, model)})
    assert total.cost == pytest.approx(PRICES.cost(total, model))


async def test_the_small_index_says_the_same_as_the_map(tmp_path: Path) -> None:
    first = Prices(cache_dir=tmp_path / "cache")
    await first.load()
    (index,) = (tmp_path / "cache").iterdir()
    assert index.stat().st_size < 700_000
    second = Prices(cache_dir=tmp_path / "cache")
    await second.load()
    assert second.limits("gpt-5-mini") == first.limits("gpt-5-mini") == PRICES.limits("gpt-5-mini")
    index.write_text("garbage")
    third = Prices(cache_dir=tmp_path / "cache")
    await third.load()
    assert third.limits("gpt-5-mini") == first.limits("gpt-5-mini")


@pytest.mark.parametrize("content", [None, "garbage", "{}"])
async def test_a_missing_or_broken_map_is_no_failure(tmp_path: Path, content) -> None:
    source = tmp_path / "map.json"
    if content is not None:
        source.write_text(content)
    prices = Prices(source=source, cache_dir=Path("/proc/nowhere"))
    await prices.load()
    assert prices.limits("gpt-5-mini") is None


async def test_limits_wait_for_the_map_and_the_other_does_not() -> None:
    models = Models({})
    assert models.limits_if_loaded("gpt-5-mini") is None
    assert await models.limits("gpt-5-mini") == PRICES.limits("gpt-5-mini")
    assert models.limits_if_loaded("gpt-5-mini") is not None
    assert models.limits_if_loaded("offline") is not None


def test_importing_models_imports_nothing_heavy() -> None:
    script = (
        "import sys, harnessd.models.models; from harnessd.models.prices import Prices; Prices().load_now();"
        "print([name for name in ('litellm', 'openai', 'httpx', 'aiohttp') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
