"""What every test stands on: an isolated HOME, no provider keys, no network."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# The same cases each time, so that a run says something about the change it tests. To look for new ones:
# HYPOTHESIS=explore python -m pytest
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS", "steady"))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def isolated_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A HOME of the test's own; keys, harnessd variables and git settings of the machine are absent."""
    home = tmp_path_factory.mktemp("user-home")
    for name in list(os.environ):
        if name.startswith(("HARNESSD_", "GIT_", "XDG_", "LITELLM_")) or name.endswith(
            ("_API_KEY", "_API_BASE", "_BASE_URL")
        ):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return home


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints what tests recorded as their score, added up over all that recorded it, in whichever process they ran.

    A score is a property `score: WHAT` with `[passed, of]`, or `score` with a sentence.
    """
    scores: dict[str, list[int]] = {}
    lines: list[str] = []
    for how in ("passed", "failed"):
        for report in terminalreporter.stats.get(how, ()):
            for name, value in getattr(report, "user_properties", ()) if report.when == "call" else ():
                if name.startswith("score: "):
                    scores[name] = [sum(both) for both in zip(scores.get(name, [0, 0]), value, strict=True)]
                elif name == "score":
                    lines.append(str(value))
    if scores or lines:
        terminalreporter.section("scores")
    for name, (passed, of) in sorted(scores.items()):
        terminalreporter.write_line(f"{name.removeprefix('score: ')}: {passed} of {of}")
    for line in sorted(lines):
        terminalreporter.write_line(line)
