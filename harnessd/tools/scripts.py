"""How do the scripts that tools.json declares become tools, and what is a script given and taken from?"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import anyio
import orjson

from harnessd.facts.message import JsonObject, TextPart
from harnessd.facts.run import Failure
from harnessd.home.tools_file import Script
from harnessd.sandbox.bubblewrap import Started, Unavailable
from harnessd.tools.execute import SandboxFor
from harnessd.tools.output import Cleaner, Kept
from harnessd.tools.shell import follow, with_environment
from harnessd.tools.tool import Outcome, Tool, ToolContext, failed, succeeded

USUAL_SECONDS = 60.0
HEAD, TAIL = 200_000, 800_000
ERRORS = 8_000
"""Characters of the error output that are shown when a script failed."""


@dataclass
class Scripts:
    """Makes tools of scripts. `sandbox_for` is what a script may reach."""

    sandbox_for: SandboxFor
    _made: tuple[tuple[Script, ...], tuple[Tool, ...]] = field(default=((), ()))

    def tools(self, scripts: tuple[Script, ...]) -> tuple[Tool, ...]:
        """A tool for each script; the same objects as long as these are the same scripts."""
        if self._made[0] is not scripts:
            self._made = (scripts, tuple(self._tool(script) for script in scripts))
        return self._made[1]

    def _tool(self, script: Script) -> Tool:
        return Tool(
            name=script.name,
            own_name=script.name,
            kind="script",
            description=script.description,
            input_schema=script.input_schema,
            run=partial(self._run, script),
            effect="read" if script.read_only else "write",
            idempotent=script.idempotent,
            concurrency_safe=script.concurrency_safe,
            timeout=(script.timeout or USUAL_SECONDS) + 5,  # its own deadline comes first
        )

    async def _run(self, script: Script, context: ToolContext, arguments: JsonObject) -> Outcome:
        """What it printed on its output; if it failed, its status and what it said about that."""
        key = {"HARNESSD_IDEMPOTENCY_KEY": context.idempotency_key}
        sandbox = with_environment(self.sandbox_for(context), key)
        out, said = _Heard(HEAD, TAIL), _Heard(ERRORS // 4, ERRORS * 3 // 4)
        seconds = script.timeout or USUAL_SECONDS
        left = context.seconds_left()
        status: int | None = None
        async with sandbox.start(["/bin/sh", "-c", script.command], errors_apart=True) as started:
            if isinstance(started, Unavailable):
                return failed("sandbox", f"Nothing was run: {started.message}; {started.hint}.")
            with anyio.move_on_after(seconds if left is None else min(seconds, left)):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_give, started, orjson.dumps(arguments))
                    status = await follow(started, out.hear, said.hear)
                    tasks.cancel_scope.cancel()
        if status == 0:
            return succeeded(out.text() or "(no output)", changed=True, origin="local")
        wrong = f"exit {status}" if status is not None else f"Ended after {seconds:.3g} s, before it was finished."
        text = "\n".join(part for part in (wrong, said.text(), out.text()) if part)
        failure = Failure(kind="timeout" if status is None else "exit", message=wrong)
        told = (TextPart(text=text),)
        return Outcome("timeout" if status is None else "error", told, origin="local", failure=failure)


def apart(scripts: Sequence[Tool], taken: Sequence[str]) -> tuple[tuple[Tool, ...], tuple[str, ...]]:
    """Those that can be offered, and the names of those whose name is another's already, a script's before it too."""
    offered: dict[str, Tool] = {}
    refused: list[str] = []
    for tool in scripts:
        if tool.name in taken or tool.name in offered:
            refused.append(tool.name)
        else:
            offered[tool.name] = tool
    return tuple(offered.values()), tuple(refused)


class _Heard:
    """One of the two outputs as text."""

    def __init__(self, head: int, tail: int) -> None:
        self._cleaner, self._kept = Cleaner(), Kept(head, tail)

    def hear(self, data: bytes) -> None:
        self._kept.add(self._cleaner.feed(data))

    def text(self) -> str:
        self._kept.add(self._cleaner.feed(b"", last=True))
        return self._kept.text().strip("\n")


async def _give(started: Started, data: bytes) -> None:
    """The arguments on its input; a script that does not read them is no fault."""
    try:
        await started.send(data)
        await started.close_input()
    except (BrokenPipeError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        return
