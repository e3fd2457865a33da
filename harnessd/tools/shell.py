"""How is a command line started and heard: by which shell, and until when?"""

import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

import anyio

from harnessd.sandbox.bubblewrap import Sandbox, Started

_WHERE = "/usr/local/bin:/usr/bin:/bin"
_LAST_WORDS_SECONDS = 0.5
"""How long after a command's end the rest of its output is waited for."""

_BURST, _PAUSE = 2_000_000, 0.05
"""After so many bytes the reader rests for so many seconds: who prints without end must not take all of the time."""

CAREFUL_GIT = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("safe.bareRepository", "explicit"),
    ("log.showSignature", "false"),
    *((f"gpg.{kind}program", "false") for kind in ("", "openpgp.", "x509.", "ssh.")),
)
"""Keeps git, where it only reads, from running what a repository's own configuration names."""


def shell_line(command: str) -> list[str]:
    """The program and arguments that run `command`: bash where it is installed, without anybody's own settings."""
    bash = shutil.which("bash", path=_WHERE)
    return [bash, "--noprofile", "--norc", "-c", command] if bash else ["/bin/sh", "-c", command]


def with_environment(sandbox: Sandbox, more: Mapping[str, str]) -> Sandbox:
    """The sandbox with these variables as well."""
    return replace(sandbox, environment={**sandbox.environment, **more})


def careful(sandbox: Sandbox) -> Sandbox:
    """The sandbox for a command that only reads: should it do more after all, there is nothing it could do that to.

    A repository's own settings name filters and programs that no variable takes away; a judgement may be wrong.
    """
    return replace(with_environment(sandbox, careful_environment()), writes=False, network=False)


def careful_environment() -> dict[str, str]:
    """Variables for a command that only reads."""
    found = {"GIT_CONFIG_COUNT": str(len(CAREFUL_GIT)), "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    for number, (key, value) in enumerate(CAREFUL_GIT):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    # HOME is work/ there, which is open to the agent: what programs would read or run from it is kept out.
    found |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GOTOOLCHAIN": "local", "PIP_CONFIG_FILE": "/dev/null"}
    return {**found, "PYTHONNOUSERSITE": "1", "GIT_PAGER": "cat", "PAGER": "cat"}


async def follow(started: Started, *hear: Callable[[bytes], None]) -> int:
    """Passes on what a command prints until it ends, its error output to the second of `hear`; its exit status."""
    async with anyio.create_task_group() as tasks:
        heard = []
        for stream, take in zip((started.output, started.errors), hear, strict=False):
            if stream is not None:
                heard.append(anyio.Event())
                tasks.start_soon(_listen, stream, take, heard[-1])
        status = await started.wait()
        await started.end()  # what it left behind may hold its output
        with anyio.move_on_after(_LAST_WORDS_SECONDS):
            for end in heard:
                await end.wait()
        tasks.cancel_scope.cancel()
    return status


async def _listen(stream: anyio.abc.ByteReceiveStream, take: Callable[[bytes], None], end: anyio.Event) -> None:
    since_rest = 0
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for data in stream:
            take(data)
            since_rest += len(data)
            if since_rest > _BURST:
                await anyio.sleep(_PAUSE)
                since_rest = 0
    end.set()
