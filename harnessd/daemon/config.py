"""What the operator has set: flags, then `HARNESSD_*`, then `harnessd.yaml`, then defaults.

The operator's settings lie outside every home. A home can narrow them, never widen.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ByteSize,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from harnessd.errors import UsageError
from harnessd.facts.misfit import misfit
from harnessd.facts.run import Budget, Mode
from harnessd.sandbox.outcome import Limits

FILE = "harnessd.yaml"
_LIMITS = tuple(Budget.model_fields)
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]+\]|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]+")
TieredKind = Literal["memory", "users", "skills", "agents", "knowledge", "tools", "subagents", "graphs", "evals"]


class _Strict(BaseModel):
    """Settings grant power, so a misspelt one is an error and not a silent default."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        defer_build=True,
    )


class Ceiling(_Strict):
    """The most that any home may grant itself."""

    mode: Mode = "auto"
    budget: Budget = Budget()

    @field_validator("budget")
    @classmethod
    def _only_known_limits(cls, budget: Budget) -> Budget:
        """A limit that is not understood must not be ignored."""
        if budget.model_extra:
            raise ValueError(f"no limit is called {', '.join(budget.model_extra)}; there are {', '.join(_LIMITS)}")
        return budget


class Rules(_Strict):
    """The operator's own rules; they stand before those of a home."""

    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class OperatorHooks(_Strict):
    """Programs of the operator's, asked before each tool call: argument lists, not shell lines."""

    before_tool: tuple[tuple[str, ...], ...] = ()


Happening = Literal["approval", "parked", "failed", "ended"]
"""What somebody can be told of: a call waits for a person, a run is parked, it failed, it ended (or failed)."""


class _Notify(_Strict):
    """Of what, and how long it may take (seconds)."""

    on: tuple[Happening, ...] = Field(default=("approval", "parked", "failed"), min_length=1)
    timeout: float = Field(default=10.0, gt=0, le=300)

    @model_validator(mode="before")
    @classmethod
    def _on_is_a_name(cls, given: object) -> object:
        """YAML 1.1, as PyYAML reads it, takes the key `on` for the value true."""
        if isinstance(given, Mapping) and True in given:
            return {"on" if name is True else name: value for name, value in given.items()}
        return given


class NotifyCommand(_Notify):
    """A program that is told on standard input: an argument list, not a shell line."""

    command: tuple[str, ...] = Field(min_length=1)


class NotifyWebhook(_Notify):
    """A URL that is told by POST."""

    webhook: str

    @field_validator("webhook")
    @classmethod
    def _a_url(cls, webhook: str) -> str:
        parts = urlsplit(webhook)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("a webhook is a URL that begins with http:// or https://")
        return webhook


def _kind(given: object) -> str:
    has_webhook = "webhook" in given if isinstance(given, Mapping) else isinstance(given, NotifyWebhook)
    return "webhook" if has_webhook else "command"


Notify = Annotated[
    Annotated[NotifyCommand, Tag("command")] | Annotated[NotifyWebhook, Tag("webhook")], Discriminator(_kind)
]


class ExecuteSettings(_Strict):
    """How long commands may run at most, in seconds: one that is waited for, and one in the background."""

    timeout: float = Field(default=600, gt=0, allow_inf_nan=False)
    background: float = Field(default=3600, gt=0, allow_inf_nan=False)


class SandboxSettings(_Strict):
    """What commands run in. Sizes are bytes, or such as 4GB; `readable` are folders shown though they lie hidden."""

    kind: Literal["bubblewrap", "none"] = "bubblewrap"
    readable: tuple[Path, ...] = ()
    memory: ByteSize = Field(default=ByteSize(Limits().memory), ge=64 * 1024**2)
    processes: int = Field(default=Limits().processes, ge=16)
    file_size: ByteSize = Field(default=ByteSize(Limits().file_size), ge=1024)

    @model_validator(mode="before")
    @classmethod
    def _a_name_is_its_kind(cls, given: object) -> object:
        return {"kind": given} if isinstance(given, str) else given

    @field_validator("readable")
    @classmethod
    def _absolute(cls, folders: tuple[Path, ...]) -> tuple[Path, ...]:
        """A relative one would depend on where the daemon was started."""
        found = tuple(folder.expanduser() for folder in folders)
        for folder in found:
            if not folder.is_absolute():
                raise ValueError(f"{folder} is no absolute path")
        return found

    @property
    def limits(self) -> Limits:
        """What one command may take."""
        return Limits(memory=int(self.memory), processes=self.processes, file_size=int(self.file_size))


class Settings(_Strict):
    """Everything the operator can set. Paths are absolute, times are seconds.

    The daemon answers to the names of `allowed_hosts`, beside `host` and those of this machine. A run that was
    interrupted longer than `resume_within` ago is parked. A session that nobody looks at is let go after
    `idle_seconds`. Turns may end within `grace_seconds` when the daemon stops.
    """

    workspaces: Path = Path()
    state_dir: Path = Path()
    model: str | None = None
    small_model: str | None = None
    api_base: str | None = None
    host: str = "127.0.0.1"
    allowed_hosts: tuple[str, ...] = ()
    port: int = Field(default=7433, ge=0, le=65535)
    log: Literal["debug", "info", "warning", "error"] = "warning"
    ceiling: Ceiling = Ceiling()
    tiers: dict[TieredKind, Literal["auto", "ask", "locked"]] = Field(default_factory=dict)
    rules: Rules = Rules()
    hooks: OperatorHooks = OperatorHooks()
    sandbox: SandboxSettings = SandboxSettings()
    execute: ExecuteSettings = ExecuteSettings()
    trusted_links: tuple[Path, ...] = ()
    allow_env: tuple[str, ...] = ()
    resume_within: float = Field(default=6 * 3600, ge=0)
    idle_seconds: float = Field(default=30.0, ge=0)
    grace_seconds: float = Field(default=10.0, ge=0, le=3600)
    mcp_connect_timeout: float = Field(default=20.0, gt=0)
    notify: tuple[Notify, ...] = ()

    @field_validator("allowed_hosts")
    @classmethod
    def _names(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        """A name with a scheme, a port or a star would never be met, and the operator would not know why."""
        for host in hosts:
            if not _HOST.fullmatch(host):
                raise ValueError(f"{host!r} is no host: write a name or an address, such as box.lan, without a port")
        return hosts

    @property
    def secrets_file(self) -> Path:
        """The secret store: `NAME=value` lines, readable by the operator alone."""
        return self.state_dir / "secrets"


_FROM_ENV = {
    "HARNESSD_WORKSPACES": "workspaces",
    "HARNESSD_STATE": "state_dir",
    "HARNESSD_HOST": "host",
    "HARNESSD_PORT": "port",
    "HARNESSD_MODEL": "model",
    "HARNESSD_LOG": "log",
}


def load_settings(flags: Mapping[str, object] | None = None, env: Mapping[str, str] | None = None) -> Settings:
    """The settings in force; `flags` are by field name, None counts as not given.

    Raises `UsageError` that names the flag, the variable or the file and field.
    """
    environment = os.environ if env is None else env
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    from_env = {field: environment[name] for name, field in _FROM_ENV.items() if environment.get(name)}
    places = _places(given, from_env, environment)
    from_files: dict[str, Any] = {}
    for folder in (places["workspaces"], places["state_dir"]):
        from_files |= _read(folder / FILE)
    merged = from_files | from_env | given | places
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise _explain(error, given, from_env, places) from None


def read_secrets(path: Path) -> dict[str, str]:
    """The secret store at `path`, by name; empty if there is none. Raises `UsageError` if others may read it."""
    try:
        if path.stat().st_mode & 0o077:
            raise UsageError("the secret store can be read by others", where=str(path), hint=f"run: chmod 600 {path}")
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    pairs = (line.partition("=") for line in lines if "=" in line and not line.lstrip().startswith("#"))
    return {name.strip(): value.strip() for name, _, value in pairs}


def _places(given: Mapping[str, object], from_env: Mapping[str, str], env: Mapping[str, str]) -> dict[str, Path]:
    """Where homes and state lie; these two are needed before any file can be read."""
    user = Path(env.get("HOME") or Path.home())
    state_home = Path(env.get("XDG_STATE_HOME") or user / ".local" / "state")
    defaults = {"workspaces": user / "harnessd" / "workspaces", "state_dir": state_home / "harnessd"}
    places: dict[str, Path] = {}
    for field, default in defaults.items():
        value = given.get(field) or from_env.get(field) or default
        places[field] = Path(os.path.abspath(Path(str(value)).expanduser()))  # noqa: PTH100
    return places


def _read(path: Path) -> dict[str, Any]:
    """The settings in one `harnessd.yaml`, by field name; nothing if there is no such file."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot be read: {error}", where=str(path), hint="mend or move the file") from None
    import yaml  # only an operator who has such a file pays for it

    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        raise UsageError("is no valid YAML", where=place, hint="mend that line or move the file") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise UsageError("must hold settings by name", where=str(path), hint="write lines such as: model: auto")
    fields = {to_camel(name): name for name in Settings.model_fields}
    return {fields.get(str(key), str(key)): value for key, value in data.items()}


def _explain(
    error: ValidationError, given: Mapping[str, object], from_env: Mapping[str, str], places: Mapping[str, Path]
) -> UsageError:
    """Names where the first bad setting came from."""
    first = error.errors()[0]
    field = str(first["loc"][0])
    dotted = ".".join(to_camel(str(part)) for part in first["loc"])
    variables = {name: variable for variable, name in _FROM_ENV.items()}
    if field in given:
        where = f"--{field.replace('_', '-')}"
    elif field in from_env:
        where = variables[field]
    else:
        files = [str(places[one] / FILE) for one in ("state_dir", "workspaces") if (places[one] / FILE).exists()]
        where = f"{' or '.join(files) or FILE}: {dotted}"
    return UsageError(
        misfit(first["msg"]), where=where, hint="see the settings in the documentation, or remove this one"
    )
