"""What is missing on this machine, and how is it fixed?"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import anyio
import click

from harnessd import __version__
from harnessd.cli.exits import COMPLETED, FAILED
from harnessd.cli.options import Flags, shared
from harnessd.cli.output import Output
from harnessd.cli.templates import templates_folder
from harnessd.daemon.config import FILE, NotifyCommand, Settings, load_settings, read_secrets
from harnessd.daemon.starts import read_starts
from harnessd.daemon.token import find_token
from harnessd.daemon.whereabouts import Whereabouts, find_daemon
from harnessd.errors import HarnessdError
from harnessd.home.layout import TOOLS, Home, list_homes
from harnessd.home.tools_file import StdioServer, read_tools
from harnessd.models.models import Models
from harnessd.models.prefixes import PROVIDERS, is_offline
from harnessd.sandbox.probe import probe

WANTED_PYTHON, WANTED_GIT = (3, 11), (2, 31)
WANTED_BYTES = 200 * 1024 * 1024
WANTED_WATCHES = 8192


@dataclass(frozen=True, slots=True)
class Check:
    """One finding. `missing` is needed now, `warning` limits something; `fix` is empty when all is well."""

    name: str
    status: Literal["ok", "warning", "missing"]
    detail: str
    fix: str = ""


@click.command("doctor")
@click.option("--deep", is_flag=True, help="Also start what takes seconds: the translator for other providers.")
@shared
def doctor(deep: bool, out: Output, flags: Flags) -> int:
    """Say what is missing on this machine and how to fix it. Exit code 5 if something that is needed is missing."""
    settings = load_settings(flags)
    found = []
    for check in examine(settings, os.environ, deep=deep):
        found.append(check)
        if out.as_json:
            out.record(asdict(check))
        else:
            _tell(check, out)
    missing = sum(check.status == "missing" for check in found)
    if not out.as_json:
        out.line()
        out.line(out.style.good("ready") if not missing else out.style.bad(f"{missing} needed thing(s) missing"))
    return FAILED if missing else COMPLETED


def examine(settings: Settings, env: Mapping[str, str], *, deep: bool = False) -> Iterator[Check]:
    """Each check as it is done; no value of a key or secret is in any of them."""
    yield _python()
    yield _git(env)
    yield _folder("workspaces", settings.workspaces)
    yield _folder("state", settings.state_dir)
    yield _templates()
    yield _watches(Path("/proc/sys/fs/inotify/max_user_watches"))
    yield from _sandbox(settings)
    yield from _models(settings, env)
    yield from _daemon(settings, env)
    if deep:
        yield _translator()
    for home in list_homes(settings.workspaces):
        yield from _servers(home, env)


def _python() -> Check:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] >= WANTED_PYTHON:
        return Check("python", "ok", found)
    return Check("python", "missing", found, "install Python 3.11 or newer")


def _git(env: Mapping[str, str]) -> Check:
    program = shutil.which("git", path=env.get("PATH"))
    if program is None:
        return Check("git", "missing", "not on PATH", "install git, e.g. apt-get install git")
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
        version = tuple(int(part) for part in said.split()[2].split(".")[:2])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return Check("git", "missing", f"{program} does not answer", "install git anew")
    if version < WANTED_GIT:
        return Check("git", "warning", said.strip(), "install git 2.31 or newer")
    return Check("git", "ok", said.strip())


def _folder(name: str, folder: Path) -> Check:
    """A folder that can be written to, or made; with room left."""
    existing = next((one for one in (folder, *folder.parents) if one.exists()), Path("/"))
    if not existing.is_dir():
        return Check(name, "missing", f"{existing} is a file", "move it, or choose another folder")
    if not os.access(existing, os.W_OK | os.X_OK):
        fix = f"chown or chmod it, or set another one with --{'workspaces' if name == 'workspaces' else 'state-dir'}"
        return Check(name, "missing", f"{existing} cannot be written to", fix)
    free = shutil.disk_usage(existing).free
    detail = f"{folder}{'' if folder.exists() else ' (made when needed)'}, {free / 2**30:.1f} GB free"
    if free < WANTED_BYTES:
        return Check(name, "warning", detail, "make room: a full disk stops every run")
    return Check(name, "ok", detail)


def _templates() -> Check:
    try:
        return Check("templates", "ok", str(templates_folder()))
    except HarnessdError as error:
        return Check("templates", "missing", str(error.where), "install harnessd again")


def _watches(path: Path) -> Check:
    """Only speed hangs on it: without watches the home is looked at before each call all the same."""
    try:
        limit = int(path.read_text())
    except (OSError, ValueError):
        return Check("inotify", "warning", "not available; homes are looked at before each call all the same")
    if limit < WANTED_WATCHES:
        return Check("inotify", "warning", f"{limit} watches", f"sysctl fs.inotify.max_user_watches={WANTED_WATCHES}")
    return Check("inotify", "ok", f"{limit} watches")


def _sandbox(settings: Settings) -> Iterator[Check]:
    confined = settings.sandbox.kind == "bubblewrap"
    for found in probe(settings.sandbox.limits, confined=confined):
        yield Check(found.name, found.status, found.detail, found.fix)
    for folder in settings.sandbox.readable:
        if not folder.exists():
            yield Check("readable", "warning", f"{folder} does not exist", f"mend sandbox.readable in {FILE}")


def _models(settings: Settings, env: Mapping[str, str]) -> Iterator[Check]:
    try:
        secrets = read_secrets(settings.secrets_file)
    except HarnessdError as error:
        yield Check("secrets", "missing", f"{error.where}: {error.message}", error.hint or "")
        secrets = {}
    except OSError as error:
        detail = f"{settings.secrets_file}: {error.strerror}"
        yield Check("secrets", "missing", detail, "make it readable for you alone, or move it away")
        secrets = {}
    everything = {**env, **secrets}
    names = sorted({key for provider in PROVIDERS.values() for key in provider.keys if everything.get(key)})
    yield Check("keys", "ok", ", ".join(names) if names else "none (the offline model needs none)")
    model, problem = anyio.run(_resolve, settings, everything)
    if problem is not None:
        yield Check("model", "warning", f"auto is {model}: {problem.message}", problem.hint or "")
    elif is_offline(model):
        fix = "set a key (ANTHROPIC_API_KEY, OPENAI_API_KEY …), start Ollama, or name a model with --model"
        yield Check("model", "warning", "auto is the offline model, which is not an AI", fix)
    else:
        yield Check("model", "ok", f"auto is {model}")


async def _resolve(settings: Settings, env: Mapping[str, str]) -> tuple[str, HarnessdError | None]:
    models = Models(env)
    try:
        model = await models.resolve("auto", operator=settings.model)
        return model, models.check(model, settings.api_base)
    finally:
        await models.close()


def _daemon(settings: Settings, env: Mapping[str, str]) -> Iterator[Check]:
    """Whether one runs, whether it may be talked to, and why it is careful, or would be."""
    try:
        find_token(settings.state_dir, env)
    except HarnessdError as error:
        yield Check("token", "missing", f"{error.where}: {error.message}", error.hint or "")
    found, starts = find_daemon(settings.state_dir), read_starts(settings.state_dir)
    if found is None:
        yield Check("daemon", "ok", "not running; start it with: harnessd serve")
    else:
        detail = f"process {found.pid} on {found.host}:{found.port} since {found.started_at}"
        yield _running(found, detail, settings)
    if starts.began:
        careful = "; the next one comes up in safe mode" if starts.safe_mode else ""
        detail = f"the last {len(starts.began)} start(s) ended before the daemon was ready{careful}"
        yield Check("starts", "warning", detail, "look at its log; HARNESSD_LOG=debug says more")
    for one in settings.notify:
        if isinstance(one, NotifyCommand) and shutil.which(one.command[0], path=env.get("PATH")) is None:
            fix = f"install it, or mend notify in {FILE}"
            yield Check("notify", "warning", f"{one.command[0]} is not on PATH", fix)


def _running(found: Whereabouts, detail: str, settings: Settings) -> Check:
    if found.safe_mode is not None:
        fix = "mend what broke it, then start it again: harnessd serve"
        return Check("daemon", "warning", f"{detail}, in safe mode: {found.safe_mode}", fix)
    if found.workspaces != str(settings.workspaces):
        fix = "set HARNESSD_STATE or HARNESSD_WORKSPACES so that they belong together"
        return Check("daemon", "warning", f"{detail}, for other homes: {found.workspaces}", fix)
    if found.version != __version__:
        return Check("daemon", "warning", f"{detail}, version {found.version}", "start it again: harnessd serve")
    return Check("daemon", "ok", detail)


def _translator() -> Check:
    if find_spec("litellm") is None:
        return Check("translator", "missing", "litellm is not installed", "install harnessd again")
    trial = [sys.executable, "-c", "import litellm"]
    env = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"}
    try:
        subprocess.run(trial, capture_output=True, timeout=120, check=True, env=env)
    except (OSError, subprocess.SubprocessError) as error:
        return Check("translator", "missing", f"litellm cannot be imported: {error}", "install harnessd again")
    return Check("translator", "ok", "litellm starts")


def _servers(home: Home, env: Mapping[str, str]) -> Iterator[Check]:
    name = f"home {home.name}"
    try:
        raw = (home.path / TOOLS).read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        yield Check(name, "warning", f"{home.path / TOOLS}: {error.strerror}", "make it readable")
        return
    tools, _ = read_tools(raw, TOOLS)
    if tools is None:
        yield Check(name, "warning", f"{home.path / TOOLS} is not valid", f"harnessd lint {home.path}")
        return
    for server, declared in tools.mcp_servers.items():
        if not isinstance(declared, StdioServer) or not declared.enabled:
            continue
        if shutil.which(declared.command, path=env.get("PATH")) is None:
            fix = f"install it, or set enabled to false in {home.path / TOOLS}"
            yield Check(name, "warning", f"MCP server {server}: {declared.command} is not on PATH", fix)
        else:
            yield Check(name, "ok", f"MCP server {server}: {declared.command}")


def _tell(check: Check, out: Output) -> None:
    style = out.style
    mark = {"ok": style.good("✓"), "warning": style.odd("!"), "missing": style.bad("✗")}[check.status]
    out.line(f"{mark} {style.bold(check.name.ljust(11))} {check.detail}")
    if check.fix:
        out.line(f"              {check.fix}")
