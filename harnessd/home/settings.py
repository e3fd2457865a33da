"""What does front matter set? One format for AGENTS.md and for subagents.

Text loads leniently. What grants or limits power comes only from a header that is YAML without repair and
whose value fits; otherwise it is withheld, and an agent whose powers are withheld runs readers only.
"""

import difflib
import re
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError

from harnessd.facts.base import Record
from harnessd.facts.misfit import misfit
from harnessd.facts.run import Mode
from harnessd.home.document import Document
from harnessd.home.header import HeaderValue, folded
from harnessd.home.problem import Problem

MODES: tuple[Mode, ...] = get_args(Mode)

POWERS = frozenset({"mode", "tools", "disallowedTools", "budget", "workdirs", "network", "schedule"})
"""The settings that grant or limit power."""


def split_names(value: str) -> tuple[str, ...]:
    """A list of names written in one line: split at commas and spaces, except inside brackets.

    `Read, execute(git log:*) Write` → `("Read", "execute(git log:*)", "Write")`
    """
    return tuple(re.findall(r"(?:[^\s,()]|\([^()]*\)?|\))+", value))


def _names(value: Any) -> Any:
    if isinstance(value, str):
        return split_names(value)
    if isinstance(value, list | tuple):
        return tuple(value)
    return value


def _texts(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


def _mode(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return next((mode for mode in MODES if folded(mode) == folded(value.strip())), value)


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


def _seconds(value: Any) -> Any:
    if isinstance(value, str):
        if value.strip().lower() in {"", "never", "none"}:
            return None
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhd]?)", value.strip().lower())
        if match:
            return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]
    return value


# A tool's name, a pattern of names, or a rule such as `execute(git log:*)`.
ToolEntry = Annotated[str, Field(pattern=r"^(?:[\w.:/-]|\*)+(?:\([^()]*\))?$", max_length=300)]
ToolNames = Annotated[tuple[ToolEntry, ...], BeforeValidator(_names)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]


class _Limits(Record):
    """A record in which an unknown key is an error: a limit that is not understood must not be ignored."""

    model_config = ConfigDict(extra="forbid")


class Budget(_Limits):
    """What one run may spend: model turns, tokens, US dollars, seconds. None: not limited here."""

    turns: int | None = Field(default=None, gt=0)
    tokens: int | None = Field(default=None, gt=0)
    cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    seconds: Annotated[float | None, BeforeValidator(_seconds)] = Field(default=None, gt=0, allow_inf_nan=False)


class ScheduleEntry(_Limits):
    """A job: at `cron` (five fields) in the time zone `tz` the agent gets `prompt`."""

    name: str = ""
    cron: str = Field(min_length=1)
    tz: str = "UTC"
    prompt: str = Field(min_length=1)
    missed: Annotated[Literal["skip", "once"], BeforeValidator(_lower)] = "skip"


class MemorySettings(Record):
    """How memory is kept up: `every` so many turns what was said is looked through for facts; None is never."""

    enabled: bool = True
    every: int | None = Field(default=None, gt=0)


class AgentSettings(Record):
    """The settings of the main agent or of a subagent; unknown keys are kept as they are.

    `tools` None: all that the parent (or the home) offers. `approval_expiry` in seconds, None: never.
    `powers_withheld`: the header has powers that could not be read strictly, so only readers may run.
    """

    name: str = ""
    description: str = ""
    model: str | None = None
    fallback_models: Names = ()
    small_model: str | None = None
    mode: Annotated[Mode | None, BeforeValidator(_mode)] = None
    tools: ToolNames | None = None
    disallowed_tools: ToolNames = ()
    skills: Names | None = None
    budget: Budget = Budget()
    workdirs: Texts = ()
    network: Annotated[Literal["none", "full"], BeforeValidator(_lower)] = "none"
    approval_expiry: Annotated[float | None, BeforeValidator(_seconds)] = Field(default=None, gt=0)
    schedule: tuple[ScheduleEntry, ...] = ()
    memory: MemorySettings = MemorySettings()
    powers_withheld: bool = False


_FIELDS = {folded(name): name for name in AgentSettings.model_fields if name != "powers_withheld"} | {
    "permissionmode": "mode",
    "allowedtools": "tools",
    "workdirectories": "workdirs",
    "fallbackmodel": "fallback_models",
}
_POWER_FIELDS = {"mode", "tools", "disallowed_tools", "budget", "workdirs", "network", "schedule"}
# Names that other products give to their own models; they say nothing about ours.
_FOREIGN_MODELS = {"inherit", "default", "sonnet", "opus", "haiku", "opusplan", "fast", "best"}


def read_settings(document: Document) -> tuple[AgentSettings, tuple[Problem, ...]]:
    """The settings in the document's header, and what is odd about them. Never raises."""
    reading = _Reading(document)
    reading.collect()
    return reading.settings(), tuple(reading.problems)


class _Reading:
    def __init__(self, document: Document) -> None:
        self._document = document
        self._fields: dict[str, tuple[str, Any]] = {}  # field name → key as written, value
        self._unknown: dict[str, HeaderValue] = {}
        self._withheld = False
        self.problems: list[Problem] = []

    def collect(self) -> None:
        for key, value in self._document.header.items():
            name = _FIELDS.get(folded(key))
            if folded(key) == "maxturns":
                self._max_turns(key, value)
            elif name is None:
                self._unknown[key] = value
                self._report_unknown(key)
            elif name in _POWER_FIELDS:
                self._power(name, key, value)
            elif value is not None:
                self._fields[name] = (key, value)
        self._foreign_model()

    def settings(self) -> AgentSettings:
        """Validates; a field that does not fit is reported and left at its default."""
        while True:
            values = {name: value for name, (_, value) in self._fields.items()}
            extra = {key: value for key, value in self._unknown.items() if key not in AgentSettings.model_fields}
            try:
                return AgentSettings.model_validate(extra | values | {"powers_withheld": self._withheld})
            except ValidationError as error:
                for name in {_field_of(item["loc"][0]) for item in error.errors() if item["loc"]}:
                    self._reject(name, error)

    def _power(self, name: str, key: str, value: HeaderValue) -> None:
        if not self._document.strict or not self._document.intact:
            self._withheld = True
            self._report(
                key, "power-not-strict", "error", f"{key} is not applied: the header is not plain YAML",
                "mend the header",
            )  # fmt: skip
        elif _has_gap(value):
            self._withheld = True
            self._report(
                key,
                "power-empty",
                "error",
                f"{key}, or a part of it, has no value",
                "give it a value, or remove the line",
            )
        elif name in self._fields and name != "budget":
            self._withheld = True
            self._report(
                key,
                "power-twice",
                "error",
                f"{key} and {self._fields[name][0]} say the same",
                "keep one of them",
            )
        else:
            self._fields[name] = (key, self._with_turns(value) if name == "budget" else value)

    def _max_turns(self, key: str, value: HeaderValue) -> None:
        before = self._fields.get("budget", ("", {}))[1]
        if isinstance(before, dict) and "turns" not in before:
            self._power("budget", key, before | {"turns": value} if value is not None else None)
        else:
            self._power("budget", key, None)

    def _with_turns(self, value: HeaderValue) -> HeaderValue:
        """`value` of `budget`, joined with a `maxTurns` that came before it; the smaller number of turns
        counts.
        """
        before = self._fields.get("budget", ("", {}))[1]
        return before | value if isinstance(before, dict) and isinstance(value, dict) else value

    def _foreign_model(self) -> None:
        key, value = self._fields.get("model", ("", None))
        if not isinstance(value, str):
            return
        if value.strip().lower() in _FOREIGN_MODELS or re.search(r"\s", value.strip()):
            del self._fields["model"]
            if value.strip().lower() != "inherit":
                self._report(
                    key, "foreign-model", "notice",
                    f"{value!r} names a model of another product; the parent's model is used",
                    "write provider/model, or inherit",
                )  # fmt: skip

    def _report_unknown(self, key: str) -> None:
        near = near_power(key)
        self._report(
            key, "unknown-key", "warning" if near else "notice",
            f"{key} is not known here; it is kept and has no effect",
            f"did you mean {near}?" if near else "remove it if nothing else reads it",
        )  # fmt: skip

    def _reject(self, name: str, error: ValidationError) -> None:
        key, _ = self._fields.pop(name, (name, None))
        item = next(item for item in error.errors() if item["loc"] and _field_of(item["loc"][0]) == name)
        inner = ".".join(str(step) for step in item["loc"][1:] if isinstance(step, str | int))
        where = f"{key}: {inner}" if inner else key
        power = name in _POWER_FIELDS
        self._withheld = self._withheld or power
        self._report(
            key, "power-invalid" if power else "setting-invalid", "error" if power else "warning",
            f"{where}: {misfit(item['msg'])}",
            _ALLOWED.get(name, "see the list of settings"),
        )  # fmt: skip
        if name not in AgentSettings.model_fields:  # an unknown key in the way of a field
            self._unknown.pop(name, None)

    def _report(
        self, key: str, code: str, severity: Literal["notice", "warning", "error"], message: str, fix: str
    ) -> None:
        line = self._document.key_lines.get(key, 0)
        self.problems.append(
            Problem(path=self._document.path, line=line, code=code, severity=severity, message=message, fix=fix)
        )


def _has_gap(value: HeaderValue) -> bool:
    """Whether a value, or any part of it, was left empty: what was meant to stand there can't be known."""
    if isinstance(value, dict):
        return any(_has_gap(part) for part in value.values())
    return any(_has_gap(part) for part in value) if isinstance(value, list) else value is None


_ALLOWED = {
    "mode": "one of " + ", ".join(MODES),
    "tools": "write names of tools, or * for all",
    "disallowed_tools": "write names of tools",
    "budget": "write turns, tokens, cost or seconds with a number each",
    "workdirs": "write a list of folders",
    "network": "none or full",
    "schedule": "each job needs cron and prompt; name, tz and missed (skip, once) are optional",
    "approval_expiry": "write a time such as 30m or 12h, or never",
    "memory": "write every: with a number of turns, or enabled: no",
}


def near_power(key: str) -> str | None:
    """The power that `key` is probably a misspelling of, if it is no known key itself."""
    if folded(key) in _FIELDS:
        return None
    spellings = {folded(power): power for power in POWERS} | {
        "permissionmode": "mode",
        "maxturns": "maxTurns",
    }
    near = difflib.get_close_matches(folded(key), spellings, n=1, cutoff=0.75)
    return spellings[near[0]] if near else None


def power_keys(document: Document) -> frozenset[str]:
    """The powers that a header speaks of, in their canonical spelling, whether or not they can be applied."""
    canonical = {folded(power): power for power in POWERS}
    found = set()
    for key in document.header:
        name = "budget" if folded(key) == "maxturns" else _FIELDS.get(folded(key), "")
        if folded(name) in canonical:
            found.add(canonical[folded(name)])
    return frozenset(found)


def _field_of(step: object) -> str:
    return _FIELDS.get(folded(str(step)), str(step))
