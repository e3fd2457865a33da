"""What front matter sets; H5: power comes from a strict parse, and never loosens because a file broke."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessd.home.document import read_document
from harnessd.home.settings import POWERS, AgentSettings, near_power, power_keys, read_settings, split_names
from harnessd.home.subagents import BUILT_IN_TOOLS, read_subagent, resolve_tools, unknown_tools
from harnessd.home.validity import invalid


def settings_of(text: str) -> AgentSettings:
    return read_settings(read_document(f"---\n{text}\n---\nBody".encode(), "AGENTS.md"))[0]


def codes_of(text: str) -> list[str]:
    return [problem.code for problem in read_settings(read_document(f"---\n{text}\n---\nB".encode(), "AGENTS.md"))[1]]


FULL = """\
name: Ada
description: Keeps the garden
model: openai/gpt-x
fallbackModels: [a/b, c/d]
smallModel: e/f
mode: acceptEdits
tools: read, execute(git log:*), mcp__time__*
disallowedTools: [write]
skills: tea
budget: {turns: 12, tokens: 5000, cost: 1.5, seconds: 10m}
workdirs: [/srv/code, ~/notes]
network: full
approvalExpiry: 12h
schedule:
  - {name: morning, cron: "0 7 * * *", tz: Europe/Berlin, prompt: Good morning, missed: once}
memory: {enabled: no, everySessions: 5}
"""


def test_every_setting_is_read() -> None:
    settings = settings_of(FULL)
    assert not codes_of(FULL)
    assert settings.fallback_models == ("a/b", "c/d")
    assert settings.mode == "acceptEdits"
    assert settings.tools == ("read", "execute(git log:*)", "mcp__time__*")
    assert settings.disallowed_tools == ("write",)
    assert settings.skills == ("tea",)
    assert (settings.budget.turns, settings.budget.tokens, settings.budget.cost) == (12, 5000, 1.5)
    assert settings.budget.seconds == 600
    assert settings.workdirs == ("/srv/code", "~/notes")
    assert settings.network == "full"
    assert settings.approval_expiry == 12 * 3600
    assert settings.schedule[0].cron == "0 7 * * *"
    assert settings.schedule[0].missed == "once"
    assert not settings.memory.enabled
    assert settings.memory.model_extra == {"everySessions": "5"}
    assert not settings.powers_withheld


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("disallowed_tools: a", "disallowed_tools", ("a",)),
        ("disallowed-tools: a", "disallowed_tools", ("a",)),
        ("DisallowedTools: a", "disallowed_tools", ("a",)),
        ("permissionMode: plan", "mode", "plan"),
        ("mode: dont-ask", "mode", "dontAsk"),
        ("mode: Plan", "mode", "plan"),
        ("fallback_models: a b", "fallback_models", ("a", "b")),
        ("approval_expiry: never", "approval_expiry", None),
        ("model: inherit", "model", None),
        ("network: NONE", "network", "none"),
        ("allowed-tools: read", "tools", ("read",)),
        ("tools: []", "tools", ()),
    ],
)
def test_spellings(text: str, field: str, value: object) -> None:
    assert getattr(settings_of(text), field) == value
    assert not settings_of(text).powers_withheld


def test_max_turns_and_budget_join() -> None:
    assert settings_of("maxTurns: 7").budget.turns == 7
    assert settings_of("maxTurns: 7\nbudget: {cost: 2}").budget.turns == 7
    assert settings_of("budget: {cost: 2}\nmax_turns: 7").budget.cost == 2
    assert settings_of("budget: {turns: 2}\nmax_turns: 7").powers_withheld


def test_unknown_keys_are_kept_and_reported() -> None:
    settings = settings_of("color: blue\nx-y: [1, 2]")
    assert settings.model_extra == {"color": "blue", "x-y": ["1", "2"]}
    assert codes_of("color: blue") == ["unknown-key"]
    assert AgentSettings.model_validate(settings.model_dump()) == settings


BROKEN_POWERS = [
    "mode: strict",
    "mode:",
    "mode: [plan]",
    "budget: 5",
    "budget: {turns: many}",
    "budget: {turns: 0}",
    "budget: {turns: }",
    "tools: [read, ~]",
    "budget: {cost: nan}",
    "budget: {turn: 3}",
    "network: sometimes",
    "tools: {read: true}",
    "tools: (read]",
    "tools:",
    "disallowedTools: ~",
    "workdirs: {a: b}",
    "schedule: daily",
    "schedule: [{cron: 0 7 * * *}]",
    "schedule: [{cron: 0 7 * * *, prompt: x, missed: maybe}]",
    "tools: read\nallowed_tools: write",
]


@pytest.mark.parametrize("text", BROKEN_POWERS)
@pytest.mark.parametrize("path", ["AGENTS.md", "subagents/a.md"])
def test_h5_a_power_that_does_not_fit_is_withheld_and_makes_the_file_invalid(text: str, path: str) -> None:
    raw = f"---\n{text}\n---\nBody".encode()
    settings, problems = read_settings(read_document(raw, path))
    assert settings.powers_withheld
    assert [problem.line for problem in problems if problem.severity == "error"] == [text.count("\n") + 2]
    assert invalid(path, raw, None) is not None


@pytest.mark.parametrize("power", sorted(POWERS))
def test_h5_no_power_from_a_repaired_header(power: str) -> None:
    values = {"budget": "{turns: 3}", "mode": "bypassPermissions", "network": "full"}
    raw = f"---\ndescription: a: b\n{power}: {values.get(power, '[x]')}\n---\nBody".encode()
    settings, _ = read_settings(read_document(raw, "AGENTS.md"))
    assert settings.powers_withheld
    assert settings.description == "a: b"
    default = AgentSettings()
    for field in ("mode", "tools", "disallowed_tools", "budget", "workdirs", "network", "schedule"):
        assert getattr(settings, field) == getattr(default, field)
    assert invalid("AGENTS.md", raw, None)


@pytest.mark.parametrize("path", ["skills/a/SKILL.md", "MEMORY.md", "KNOWLEDGE.md"])
def test_h5_a_repaired_header_without_power_is_valid(path: str) -> None:
    assert invalid(path, b"---\ndescription: a: b\n---\nBody", None) is None


def test_h5_a_repaired_header_of_agents_without_power_is_valid() -> None:
    assert invalid("AGENTS.md", b"---\ndescription: a: b\n---\nBody", b"Body") is None


INVALID = [
    ("AGENTS.md", b"a\0b", None),
    ("AGENTS.md", b"\xe9", None),
    ("MEMORY.md", b"", b"- fact\n"),
    ("AGENTS.md", b"", b"x"),
    ("tools.json", b"", b"{}"),
    ("tools.json", b"{", None),
    ("tools.json", b"[]", None),
    ("tools.json", b'{"deny": [1]}', None),
    ("tools.json", b'{"deny": []}\0', None),
    ("skills/a/SKILL.md", b"\xff\xff", None),
    ("subagents/a.md", b"\0", None),
    ("users/bo/MEMORY.md", b"\0", None),
    ("graphs/a.yaml", b"\0", None),
]
VALID = [
    ("AGENTS.md", b"", None),
    ("AGENTS.md", b"", b""),
    ("tools.json", b"", None),
    ("tools.json", b"{}", None),
    ("AGENTS.md", "\ufeffÄ".encode("utf-16"), None),
    ("skills/a/assets/logo.png", b"\x89PNG\0\xff", None),
    ("skills/a/scripts/run.py", b"", b"x"),
    ("work/x", b"\0", None),
    ("AGENTS.md", b"New text", b"---\nmode: plan\n---\nOld text"),
    ("AGENTS.md", b"---\nname: a\n---\nText", b"---\nname: a\nmode: plan\n---\nText"),
]


@pytest.mark.parametrize(("path", "raw", "committed"), INVALID)
def test_h5_invalid(path: str, raw: bytes, committed: bytes | None) -> None:
    problem = invalid(path, raw, committed)
    assert problem
    assert problem.severity == "error"
    assert problem.path == path
    assert problem.fix


@pytest.mark.parametrize(("path", "raw", "committed"), VALID)
def test_h5_valid(path: str, raw: bytes, committed: bytes | None) -> None:
    assert invalid(path, raw, committed) is None


COMMITTED = b"---\nname: Ada\nmode: plan\ndisallowedTools: [execute]\nbudget: {turns: 3}\n---\nYou are Ada.\nBe kind.\n"


def limits(raw: bytes) -> tuple[object, ...]:
    settings, _ = read_settings(read_document(raw, "AGENTS.md"))
    return settings.mode, settings.disallowed_tools, settings.budget


@pytest.mark.parametrize("path", ["AGENTS.md", "subagents/a.md"])
def test_h5_truncated_anywhere_no_limit_is_lost(path: str) -> None:
    for end in range(len(COMMITTED)):
        cut = COMMITTED[:end]
        assert invalid(path, cut, COMMITTED) or limits(cut) == limits(COMMITTED), cut


def test_h5_any_bit_flipped_no_limit_disappears() -> None:
    """A flip may make another valid value (`turns: 2`), which no reader can know; but no setting vanishes."""
    for position in range(len(COMMITTED)):
        for bit in range(8):
            broken = bytearray(COMMITTED)
            broken[position] ^= 1 << bit
            raw = bytes(broken)
            kept = power_keys(read_document(raw, "AGENTS.md")) == {"mode", "disallowedTools", "budget"}
            settings, _ = read_settings(read_document(raw, "AGENTS.md"))
            set_all = settings.mode and settings.disallowed_tools and settings.budget.turns
            assert invalid("AGENTS.md", raw, COMMITTED) or (kept and set_all), raw


@given(st.binary(max_size=200), st.one_of(st.none(), st.binary(max_size=50)))
def test_h5_validity_never_raises(raw: bytes, committed: bytes | None) -> None:
    for path in ("AGENTS.md", "tools.json", "subagents/a.md", "skills/a/SKILL.md", "MEMORY.md"):
        assert invalid(path, raw, committed) == invalid(path, raw, committed)


@pytest.mark.parametrize(
    ("key", "near"),
    [("disalowedTools", "disallowedTools"), ("moed", "mode"), ("budgets", "budget"), ("maxTurn", "maxTurns"),
     ("color", None), ("mode", None), ("model", None), ("tool", "tools")],
)  # fmt: skip
def test_near_power(key: str, near: str | None) -> None:
    assert near_power(key) == near


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Read, Grep", ("Read", "Grep")),
        ("Read Grep", ("Read", "Grep")),
        ("execute(git log:*), execute(a, b)", ("execute(git log:*)", "execute(a, b)")),
        ("execute(open", ("execute(open",)),
        ("", ()),
        (" , ,", ()),
    ],
)
def test_split_names(text: str, names: tuple[str, ...]) -> None:
    assert split_names(text) == names


PARENT = (*BUILT_IN_TOOLS, "deploy", "mcp__time__now", "mcp__time__zone", "mcp__git__log")


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("model: x", PARENT),
        ("tools: *", PARENT),
        ("tools: []", ()),
        ("tools: Read, Write", ("read", "write")),
        ("tools: Task(explore)", ("delegate",)),
        ("tools: mcp__time", ("mcp__time__now", "mcp__time__zone")),
        ("tools: mcp__time__*", ("mcp__time__now", "mcp__time__zone")),
        ("tools: log, deploy", ("deploy", "mcp__git__log")),
        ("tools: read, Frobnicate", ("read",)),
        ("tools: execute(git log:*)", ("execute",)),
        ("tools: read, write\ndisallowedTools: Write", ("read",)),
        ("tools: read\ndisallowedTools: read", ()),
        ("disallowedTools: mcp__*", tuple(tool for tool in PARENT if not tool.startswith("mcp__"))),
        ("disallowedTools: execute(rm:*)", PARENT),
    ],
)
def test_h5_tools_of_a_subagent_are_a_subset_of_its_parents(header: str, expected: tuple[str, ...]) -> None:
    subagent, _ = read_subagent(f"---\ndescription: Use when x\n{header}\n---\nB".encode(), "subagents/a.md")
    assert subagent
    assert resolve_tools(subagent.settings, PARENT) == expected
    if "Frobnicate" in header:
        assert unknown_tools(subagent.settings, PARENT) == ("Frobnicate",)
