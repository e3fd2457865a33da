"""What runs inside, right before the command: it gives up what the command must not have, and becomes it.

This file is run by itself (`python -I -S`), with nothing of this package at hand, so it imports little and fast. It
first reads its plan from its input: eight digits of length, then a marshalled tuple. Only whoever holds the sandbox
sends one; if that one dies before, the input ends and nothing is begun. Then it says `READY` or `ABSENT` in one byte
of output; all that follows, on both, is the command's own.

The wall is Landlock, the kernel's own second opinion: even where a mount was wrong, writing is possible only below the
folders that the plan names. It forbids mounting, so it can't stand around bubblewrap itself.
"""

# Without pathlib, which takes longer to import than all of this takes to run.
# ruff: noqa: PTH112, PTH118, PTH123, PTH208

import os
import sys

READY, ABSENT = b"\x06", b"\x15"

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # Landlock's system calls, the same on every architecture
_VERSION = 1
_PATH_BENEATH = 1
_NO_NEW_PRIVS, _SUBREAPER = 38, 36
_WRITE_FILE, _TRUNCATE, _REFER = 1 << 1, 1 << 14, 1 << 13
_CHANGE_FOLDER = sum(1 << bit for bit in range(4, 13))  # remove and make whatever kind of file
_WITH_SCOPES = 6
_ABSTRACT_SOCKETS, _SIGNALS = 1 << 0, 1 << 1


def main() -> None:
    """Reads the plan and carries it out; does not return."""
    import marshal

    told = _exactly(int(_exactly(8)))
    command, environment, limits, walled, writable, lifeline = marshal.loads(told)  # noqa: S302 - whoever sends it starts us
    if lifeline is not None:
        _keep_watch(lifeline)
    os.closerange(3, 1 << 20)
    _become(command, environment, limits, walled, writable)


def landlock_version() -> int:
    """Which Landlock the running kernel has, 0 for none."""
    return max(0, _system_call(_CREATE, None, 0, _VERSION))


def _become(
    command: list[str],
    environment: dict[str, str],
    limits: list[tuple[str, int]],
    walled: bool,
    writable: list[tuple[str, bool]] | None,
) -> None:
    import resource

    program = _find(command[0], environment.get("PATH", ""))
    if program is None:
        os.write(1, ABSENT)
        os._exit(127)
    for name, value in limits:
        number = getattr(resource, name)
        hard = resource.getrlimit(number)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(number, (value, value))
    if walled:
        _wall(writable)
    os.write(1, READY)
    try:
        os.execve(program, command, environment)  # noqa: S606
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        os._exit(126)


def _wall(writable: list[tuple[str, bool]] | None) -> None:
    """From here on nothing can be written to but below these folders, and nothing made there but in the whole ones.

    None leaves files to the mounts, and only keeps what stands around the command from being signalled or traced.
    A kernel without Landlock goes without.
    """
    import ctypes
    import struct

    version = landlock_version()
    if version == 0 or (writable is None and version < _WITH_SCOPES):
        return
    file = _WRITE_FILE | (_TRUNCATE if version >= 3 else 0)
    folder = file | _CHANGE_FOLDER | (_REFER if version >= 2 else 0)
    if writable is None:
        attributes = struct.pack("=QQQ", 0, 0, _SIGNALS)
    else:
        attributes = struct.pack("=QQQ", folder, 0, _SIGNALS | _ABSTRACT_SOCKETS)
    rules = _system_call(_CREATE, attributes, 24 if version >= _WITH_SCOPES else 8, 0)
    if rules < 0:
        return
    for path, whole in writable or ():
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        _system_call(_ADD, rules, _PATH_BENEATH, struct.pack("=Qi", folder if whole else file, handle), 0)
        os.close(handle)
    ctypes.CDLL(None).prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    if _system_call(_RESTRICT, rules, 0) < 0:
        os.write(2, b"the second wall cannot be built: the kernel refuses it\n")
        os._exit(126)
    os.close(rules)


def _keep_watch(lifeline: int) -> None:
    """Without namespaces: returns in the command's process, and stays behind as its keeper in this one.

    Whatever loses its parent becomes a child of the keeper, so nothing can hide from it. It ends all when the command
    has ended, or when the lifeline does: that is closed by whoever asked for this, or by the kernel at his death.
    """
    import ctypes
    import select

    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    command = os.fork()
    if command == 0:
        return
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    watch = select.poll()
    watch.register(lifeline, select.POLLIN | select.POLLHUP)
    watch.register(os.pidfd_open(command), select.POLLIN)
    watch.poll()
    status = _end_all(command)
    os._exit(status if status >= 0 else 128 - status)


def _end_all(command: int) -> int:
    """Kills every descendant until there is none; the exit status of `command`."""
    import signal

    status = -9
    while True:
        try:
            while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                if ended[0] == command:
                    status = os.waitstatus_to_exitcode(ended[1])
        except ChildProcessError:
            return status
        for pid in _descendants():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        os.sched_yield()


def _descendants() -> list[int]:
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except OSError:
                continue
    found: list[int] = []
    last = [os.getpid()]
    while last:
        last = [pid for pid, parent in parents.items() if parent in last]
        found += last
    return found


def _find(name: str, path: str) -> str | None:
    places = [name] if "/" in name else [os.path.join(folder, name) for folder in path.split(":") if folder]
    return next((place for place in places if os.access(place, os.X_OK) and not os.path.isdir(place)), None)


def _system_call(number: int, *arguments: object) -> int:
    import ctypes

    return int(ctypes.CDLL(None).syscall(ctypes.c_long(number), *arguments))


def _exactly(size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = os.read(0, size - len(data))
        if not more:
            sys.exit(1)
        data += more
    return data


if __name__ == "__main__":
    main()
