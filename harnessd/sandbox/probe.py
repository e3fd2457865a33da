"""Does the sandbox work on this machine, what of it does not hold here, and what would mend that?"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import anyio

from harnessd.sandbox.bubblewrap import Sandbox
from harnessd.sandbox.cgroups import make_group
from harnessd.sandbox.gate import landlock_version
from harnessd.sandbox.outcome import Limits, Ran, Unavailable
from harnessd.sandbox.plan import counts_processes

_SECONDS = 10.0
_FULL_LANDLOCK = 6
"""The version that also keeps signals and abstract sockets apart."""

_OPEN = "with network a command reaches abstract sockets"

_INSTALL = "install bubblewrap: apt-get install bubblewrap (or dnf, pacman, apk)"
_SWITCHES = (
    ("kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    ("user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "give bwrap an AppArmor profile with `userns,`, or: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one part. A warning says what does not hold, and `fix` how it would."""

    name: str
    status: Literal["ok", "warning"]
    detail: str
    fix: str = ""


def probe(
    limits: Limits, *, confined: bool = True, program: str | None = None, switches: Path = Path("/proc/sys")
) -> Iterator[Finding]:
    """Really starts a sandbox and looks what holds. Blocks, ten seconds at most.

    `switches` is where the kernel shows its settings.
    """
    if not confined:
        yield Finding("sandbox", "warning", "off by the operator's setting: commands may do what this user may do")
    else:
        with tempfile.TemporaryDirectory(prefix="harnessd-doctor-") as folder:
            ran = anyio.run(_try, Sandbox(Path(folder), limits=limits, program=program))
        if ran is None:
            yield Finding("sandbox", "ok", "bubblewrap starts commands")
            yield _wall()
        else:
            detail = f"an agent cannot run commands, checks or scripts: {ran.message}"
            yield Finding("sandbox", "warning", detail, _fix(ran, switches))
    yield _limits(limits, confined=confined)


async def _try(sandbox: Sandbox) -> Unavailable | None:
    ran = await sandbox.run(["true"], seconds=_SECONDS)
    match ran:
        case Ran(status=0):
            return None
        case Unavailable():
            return ran
        case _:
            return Unavailable(f"a trial did not end well: {ran}", "")


def _fix(why: Unavailable, switches: Path) -> str:
    if "not installed" in why.message:
        return _INSTALL
    for name, bad, fix in _SWITCHES:
        try:
            value = (switches / name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if value == bad:
            return fix
    if "proc" in why.message:
        return "let it mount /proc: in a container --security-opt systempaths=unconfined, in a unit no ProtectProc"
    return (
        "allow user namespaces: in a container --security-opt seccomp=unconfined or a profile that allows unshare and "
        "mount, in a systemd unit no RestrictNamespaces"
    )


def _wall() -> Finding:
    version = landlock_version()
    if version >= _FULL_LANDLOCK:
        return Finding("landlock", "ok", f"a second wall stands behind the mounts (version {version})")
    fix = "a newer kernel has it: 5.13 or later with landlock in the lsm= boot option, 6.12 for all of it"
    if version:
        return Finding("landlock", "warning", f"version {version}: {_OPEN}", fix)
    return Finding("landlock", "warning", f"not in this kernel: mounts are the only wall, and {_OPEN}", fix)


def _limits(limits: Limits, *, confined: bool) -> Finding:
    """Which of the limits hold for a sandbox as a whole, which per process, and which not at all."""
    group = make_group(limits) if confined else None
    bounds = group.bounds if group is not None else frozenset[str]()
    if group is not None:
        group.remove()
    by_user = confined and counts_processes()
    told = [
        f"{limits.memory / 2**30:g} GB of memory {'in all' if 'memory' in bounds else 'per process'}",
        f"{limits.processes} processes" if bounds & {"pids"} or by_user else "processes are not bounded",
        f"{limits.file_size / 2**30:g} GB a file",
        f"{limits.open_files} open files",
    ]
    if "memory" in bounds and (bounds & {"pids"} or by_user):
        return Finding("limits", "ok", ", ".join(told))
    fix = "let this user make control groups: run it as a service with Delegate=yes" if confined else ""
    return Finding("limits", "warning", ", ".join(told), fix)
