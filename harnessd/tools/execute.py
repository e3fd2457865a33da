"""How the agent runs commands: `execute`, in the sandbox, with its output as it comes, in the background if asked."""

import signal
from collections.abc import Callable
from dataclasses import dataclass

import anyio

from harnessd.facts.message import JsonObject, Origin, TextPart
from harnessd.facts.run import Failure
from harnessd.sandbox.bubblewrap import Sandbox, Unavailable
from harnessd.tools.jobs import Job, Jobs, TooMany
from harnessd.tools.output import Cleaner, Kept, Teller
from harnessd.tools.shell import careful, follow, shell_line, with_environment
from harnessd.tools.tool import Effect, Outcome, Tool, ToolContext, failed, succeeded

EXECUTE = "execute"
USUAL_SECONDS = 120.0
LONGEST_COMMAND = 100_000
"""Bytes of a command line; the kernel takes a little more."""

HEAD, TAIL = 200_000, 800_000
"""Characters of the output that are kept, of the beginning and of the end; the whole of that can be read later."""

_BEFORE_DEADLINE = 1.0
"""Seconds before the run's own deadline at which a command is ended, so that its result is still on record."""

_OF_LIMITS = {"SIGKILL", "SIGXFSZ", "SIGXCPU"}
"""The signals by which the kernel holds a limit."""

SandboxFor = Callable[[ToolContext], Sandbox]
"""What the commands of a call may reach, by the home as it is now."""


@dataclass(frozen=True, slots=True)
class Seconds:
    """How long the operator lets commands run at most: one that is waited for, and one in the background."""

    waited_for: float = 600.0
    background: float = 3600.0


@dataclass(frozen=True)
class Execute:
    """What the tool works with. `only_reads` judges a command line; see `permissions.shell`.

    `redact` takes the operator's secrets out of what watchers see; the journal does that for itself.
    """

    sandbox_for: SandboxFor
    jobs: Jobs
    only_reads: Callable[[str], bool]
    seconds: Seconds = Seconds()
    redact: Callable[[bytes], bytes] = bytes

    def tool(self) -> Tool:
        """`execute`."""
        most = max(self.seconds.waited_for, self.seconds.background)
        return Tool(
            name=EXECUTE,
            own_name=EXECUTE,
            kind="builtin",
            description=(
                "Run a shell command in the sandbox, in work/; each call is a shell of its own. The home can be read "
                "but only work/ written; there is no network unless it was granted. Both outputs come as one. What "
                "takes longer than a few minutes or never ends (a server) belongs in the background: that answers at "
                "once with a job's id, for `job` and `action`. Use `read`, `write` and `edit` for files of the home."
            ),
            input_schema={
                "type": "object",
                "properties": {
                    "command": {"type": "string", "description": "e.g. pytest -q tests/test_a.py 2>&1 | tail -20"},
                    "timeout": {
                        "type": "number",
                        "exclusiveMinimum": 0,
                        "maximum": most,
                        "description": f"Seconds, {USUAL_SECONDS:g} if left out; with a job: how long to wait for it",
                    },
                    "background": {"type": "boolean", "description": "Answer at once and let it go on"},
                    "job": {"type": "string", "description": "Instead of a command: the job meant, job_…"},
                    "action": {"enum": ["look", "stop"], "description": "look: new output, and whether it runs"},
                },
                "additionalProperties": False,
            },
            run=self._run,
            effect_for=self._effect,
            timeout=self.seconds.waited_for + 10,  # its own deadline comes first
        )

    def _effect(self, arguments: JsonObject) -> Effect:
        """A job's look changes nothing, and its stop nothing but what the agent itself began; both may be repeated."""
        command = arguments.get("command")
        reads = "job" in arguments if command is None else "job" not in arguments and self.only_reads(str(command))
        return "read" if reads else "write"

    async def _run(self, context: ToolContext, arguments: JsonObject) -> Outcome:
        asked = _understood(arguments)
        if isinstance(asked, Outcome):
            return asked
        command, job_id = asked
        if job_id is not None:
            return await self._job(context, job_id, arguments)
        reads = self.only_reads(command)
        sandbox = with_environment(self.sandbox_for(context), {"HARNESSD_IDEMPOTENCY_KEY": context.idempotency_key})
        sandbox = careful(sandbox) if reads else sandbox
        if arguments.get("background"):
            return await self._begin(
                context, sandbox, command, float(arguments.get("timeout", self.seconds.background))
            )
        asked_for = min(float(arguments.get("timeout", USUAL_SECONDS)), self.seconds.waited_for)
        left = context.seconds_left()
        seconds = asked_for if left is None else min(asked_for, max(left - _BEFORE_DEADLINE, left / 2))
        origin: Origin = "local" if reads else _origin(sandbox)
        tell = _redacted(context.delta, self.redact)
        return await _wait_for(sandbox, command, seconds, tell, origin=origin, reads=reads)

    async def _begin(self, context: ToolContext, sandbox: Sandbox, command: str, seconds: float) -> Outcome:
        job = await self.jobs.start(context.session_id, sandbox, command, shell_line(command), seconds=seconds)
        match job:
            case TooMany(running):
                return failed(
                    "too_many", f"Nothing was started: {len(running)} jobs run already ({', '.join(running)})."
                )
            case Unavailable():
                return _refused(job)
            case Job():
                text = (
                    f"{job.id} runs in the background, for {seconds:g} s at most "
                    "and no longer than this session is open. Look at it with `job` and `action`."
                )
                return succeeded(text, changed=True, origin="local")

    async def _job(self, context: ToolContext, job_id: str, arguments: JsonObject) -> Outcome:
        job = self.jobs.find(context.session_id, job_id)
        if job is None:
            known = ", ".join(f"{one.id} ({_short(one.command)})" for one in self.jobs.of(context.session_id))
            gone = "It may have ended with the process that ran it: jobs do not survive a restart."
            there = f"There are: {known}." if known else "This session has none."
            return failed("not_found", f"There is no job {job_id[:80]}. {gone} {there}")
        if arguments["action"] == "stop":
            await self.jobs.stop(job)
        elif not job.ended:
            with anyio.move_on_after(min(float(arguments.get("timeout", 0)), self.seconds.waited_for)):
                await job.over.wait()
        return _looked_at(job, _origin(job.sandbox))


async def _wait_for(
    sandbox: Sandbox, command: str, seconds: float, tell: Callable[[str], None], *, origin: Origin, reads: bool
) -> Outcome:
    """Runs a command to its end or its deadline, and tells its output as it comes."""
    cleaner, kept, teller = Cleaner(), Kept(HEAD, TAIL), Teller(tell)
    status: int | None = None

    def hear(data: bytes, *, last: bool = False) -> None:
        text = cleaner.feed(data, last=last)
        kept.add(text)
        teller.add(text)

    async with sandbox.start(shell_line(command)) as started:
        if isinstance(started, Unavailable):
            return _refused(started)
        await started.close_input()
        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(teller.go_on)
                status = await follow(started, hear)
                tasks.cancel_scope.cancel()
    hear(b"", last=True)
    teller.flush()
    text = kept.text().rstrip("\n")
    if status is None:
        return _over_time(text, seconds, origin, reads=reads)
    if status:
        said = f"exit {status}{_meaning(status)}"
        failure = Failure(kind="exit", message=said)
        return Outcome("error", (TextPart(text=f"{said}\n{text}".rstrip()),), origin=origin, failure=failure)
    return succeeded(text or "(no output)", changed=True, origin=origin)


def _understood(arguments: JsonObject) -> tuple[str, str | None] | Outcome:
    """The command, or the id of the job that is meant; what can be neither is refused."""
    command, job = arguments.get("command"), arguments.get("job")
    if (command is None) == (job is None):
        return _invalid("Give either `command`, or `job` and `action`.")
    if job is not None:
        return ("", str(job)) if "action" in arguments else _invalid("Say with `action` what to do: look or stop.")
    if "action" in arguments:
        return _invalid("`action` is for a `job`.")
    try:
        size = len(str(command).encode())
    except UnicodeEncodeError:
        return _invalid("The command holds half a character (a lone surrogate).")
    if not str(command).strip() or "\0" in str(command):
        return _invalid("The command is empty, or holds a NUL character.")
    if size > LONGEST_COMMAND:
        return _invalid(f"The command is longer than {LONGEST_COMMAND:,} bytes: write it to a file in work/, run that.")
    return str(command), None


def _invalid(message: str) -> Outcome:
    return failed("invalid", f"{message} Nothing was run.", status="invalid")


def _redacted(tell: Callable[[str], None], redact: Callable[[bytes], bytes]) -> Callable[[str], None]:
    return lambda text: tell(redact(text.encode("utf-8", "replace")).decode("utf-8", "replace"))


def _origin(sandbox: Sandbox) -> Origin:
    """Where the output comes from: what came over a network may be anybody's word."""
    return "remote" if sandbox.network or not sandbox.confined else "local"


def _refused(unavailable: Unavailable) -> Outcome:
    return failed("sandbox", f"Nothing was run: {unavailable.message}; {unavailable.hint}.")


def _over_time(text: str, seconds: float, origin: Origin, *, reads: bool) -> Outcome:
    check = "" if reads else " What it had done by then stays done."
    said = f"Ended after {seconds:.3g} s, before it was finished.{check}"
    shown = f"{said} It had printed:\n{text}" if text else said
    return Outcome("timeout", (TextPart(text=shown),), origin=origin, failure=Failure(kind="timeout", message=said))


def _looked_at(job: Job, origin: Origin) -> Outcome:
    """What is new of a job, and how it stands."""
    new = job.output.take().strip("\n")
    for_so_long = f"after {job.seconds:.3g} s" if job.ended else f"for {job.seconds:.3g} s"
    meaning = _meaning(job.status) if job.status else ""
    stands = f"{job.id} ended {for_so_long}: {job.ended}{meaning}." if job.ended else f"{job.id} has run {for_so_long}."
    changed, job.told = bool(new) or (bool(job.ended) and not job.told), bool(job.ended)
    return succeeded(f"{stands}\n{new or '(no new output)'}", changed=changed, origin=origin)


def _meaning(status: int) -> str:
    """What a shell's exit status says beside its number, where that is commonly known."""
    if status == 127:
        return " (command not found)"
    if status > 128:
        try:
            name = signal.Signals(status - 128).name
        except ValueError:
            return ""
        return f" ({name}: perhaps a limit of the sandbox)" if name in _OF_LIMITS else f" ({name})"
    return ""


def _short(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= 60 else f"{line[:59]}…"
