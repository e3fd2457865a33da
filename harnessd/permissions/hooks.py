"""How does an operator's own program have a say before a tool runs?"""

import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from subprocess import PIPE
from typing import Literal

import anyio
import orjson
from anyio.abc import ByteReceiveStream, Process

from harnessd.facts.base import Record
from harnessd.facts.run import LayerAnswer
from harnessd.permissions.call import GateCall
from harnessd.permissions.pattern import BadRule, match, parse_rule

Hook = Callable[[GateCall], Awaitable[LayerAnswer]]
"""Answers for the layer `hooks`. Whatever it raises means a safety ask."""

_MOST_OUTPUT = 65_536


class HookReply(Record):
    """What a program prints on stdout, as JSON: `{"decision": "deny", "reason": "not on a Friday"}`."""

    decision: Literal["allow", "deny", "ask", "none"]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ProgramHook:
    """A `before_tool` program of the operator's.

    It gets the call as one JSON object on stdin (`tool`, `ownName`, `kind`, `arguments`, `effect`, `targets`,
    `originOfContext`, `remote`) and runs with `environment` and nothing else of the daemon's. It answers with a
    `HookReply` on stdout and exit code 0 (no output: no objection), or with exit code 2, which denies with stderr as
    the reason. Anything else, also no answer within `timeout` seconds, is a safety ask. `matching` is a rule; the
    program is started only for calls that it means.
    """

    command: tuple[str, ...]
    matching: str | None = None
    timeout: float = 10.0
    folder: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    async def __call__(self, call: GateCall) -> LayerAnswer:
        """The program's answer to `call`."""
        name = self.command[0] if self.command else "(no command)"
        if not _concerns(self.matching, call):
            return _answer("none", f"{name} is not asked about this tool")
        try:
            with anyio.fail_after(self.timeout):
                code, out, err = await _run(self, orjson.dumps(call.model_dump(mode="json", by_alias=True)))
        except TimeoutError:
            return _answer("ask", f"{name} gave no answer within {self.timeout:g} s")
        except (OSError, ValueError) as error:
            return _answer("ask", f"{name} could not be run: {error}")
        return _read_reply(name, code, out, err)


def _concerns(matching: str | None, call: GateCall) -> bool:
    if matching is None:
        return True
    rule = parse_rule(matching)
    return isinstance(rule, BadRule) or match(rule, call, {}, "deny") != "no"


async def _run(hook: ProgramHook, stdin: bytes) -> tuple[int, bytes, bytes]:
    """Runs the program in a process group of its own, which is gone when this returns, also when it is cancelled."""
    if not hook.command:
        raise ValueError("no command is given")
    process = await anyio.open_process(
        list(hook.command),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        cwd=hook.folder,
        env=dict(hook.environment),
        start_new_session=True,
    )
    output = {"out": b"", "err": b""}
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_feed, process, stdin)
            group.start_soon(_collect, process.stdout, output, "out")
            group.start_soon(_collect, process.stderr, output, "err")
        code = await process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await process.aclose()
    return code, output["out"], output["err"]


async def _feed(process: Process, stdin: bytes) -> None:
    if process.stdin is None:
        return
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, ConnectionError):
        await process.stdin.send(stdin)  # a program need not read what it is told
    with contextlib.suppress(ConnectionError, anyio.BrokenResourceError):
        await process.stdin.aclose()


async def _collect(stream: ByteReceiveStream | None, output: dict[str, bytes], name: str) -> None:
    """Reads to the end, keeps the first 64 KiB."""
    if stream is None:
        return
    with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        while True:
            chunk = await stream.receive()
            output[name] = (output[name] + chunk)[: _MOST_OUTPUT + 1]


def _read_reply(name: str, code: int, out: bytes, err: bytes) -> LayerAnswer:
    if code == 2:
        return _answer("deny", err.decode(errors="replace").strip()[:2000] or f"{name} denies it")
    if code != 0:
        return _answer("ask", f"{name} failed with exit code {code}")
    if not out.strip():
        return _answer("none", f"{name} has no objection")
    try:
        if len(out) > _MOST_OUTPUT:
            raise ValueError("more than 64 KiB")
        reply = HookReply.model_validate(orjson.loads(out))
    except ValueError:
        return _answer("ask", f'{name} answered with something else than {{"decision": …, "reason": …}}')
    return _answer(reply.decision, reply.reason or f"{name} says {reply.decision}")


def _answer(verdict: Literal["allow", "deny", "ask", "none"], reason: str) -> LayerAnswer:
    return LayerAnswer(layer="hooks", verdict=verdict, reason=reason, safety=verdict == "ask")
