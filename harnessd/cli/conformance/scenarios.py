"""What is tried: in each scenario a model says so much, step by step, and a person does so much meanwhile.

Nothing here is about a crash: each scenario is played once undisturbed and then again with a kill at one point after
the other. What must hold of all of them stands in `judges.py`.
"""

from dataclasses import dataclass
from typing import Literal

from harnessd.facts.message import JsonObject

Check = Literal["approval", "resume", "stop", "artifact", "subagent"]
CHECKS: tuple[Check, ...] = ("approval", "resume", "stop", "artifact", "subagent")

SERVER = "tally"
LOOK, PUT, PAY, HANG, ASK = (f"mcp__{SERVER}__{name}" for name in ("look", "put", "pay", "hang", "ask"))
"""Tools of the kit's own MCP server: a reader, an idempotent writer, a plain writer, one that never answers, and an
idempotent writer that asks a person first."""

EXECUTE = "execute"
EFFECTS = "effects.jsonl"
"""The file in `work/` where commands write down what they did; like the server's own, no daemon knows of it."""

NOTE, NOTE_AGAIN = "note", "note_again"
"""Script tools of the home, which write down their effects there too: a plain writer and an idempotent one."""

FACT = "The sky is blue"
REPORT = "work/report.txt"
REPORT_TEXT = "Figures of the year: 1, 2, 3.\n"
BELOW = "inner task"
"""What the text of every delegated task begins with, so that the scripted model knows whom it speaks for."""

LONG = "A long story about nothing in particular, told at length. " * 12


@dataclass(frozen=True)
class Use:
    """A tool that the model asks for; `{n}` in an argument is the number of the subagent."""

    tool: str
    arguments: JsonObject


@dataclass(frozen=True)
class Step:
    """One answer of the model: a text and what it asks for in the same breath."""

    uses: tuple[Use, ...] = ()
    text: str = ""


@dataclass(frozen=True)
class Act:
    """What a person does as soon as they are told an event of type `on` about a call of `tool` (empty: any).

    `key` narrows it to calls with that argument. What a subagent does is told as well. A decision is sent several times
    at once, as by several screens.
    """

    do: Literal["allow", "deny", "stop"]
    on: str
    tool: str = ""
    key: str = ""


@dataclass(frozen=True)
class Scenario:
    """One thing to try.

    `steps` is what the main agent's model says before it says "Done.", `below` what a subagent's says. `ask` names
    tools that need a person. `window` is how many characters of messages fit into the model's context. `checks` is
    tools.json's. `patient`: the person decides nothing until the daemon was killed. `needs` names built-in tools that
    the build must have, `sandbox` says that it must be able to run commands. `free`: the agent may run any command.
    """

    name: str
    check: Check
    says: str
    steps: tuple[Step, ...] = ()
    below: tuple[Step, ...] = ()
    acts: tuple[Act, ...] = ()
    ask: tuple[str, ...] = ()
    window: int | None = None
    checks: tuple[JsonObject, ...] = ()
    patient: bool = False
    needs: tuple[str, ...] = ()
    sandbox: bool = False
    free: bool = False

    @property
    def counts(self) -> bool:
        """Whether a tool is used whose effects are counted."""
        uses = (use for step in (*self.steps, *self.below) for use in step.uses)
        return any(use.tool.startswith(f"mcp__{SERVER}__") for use in uses)


def look(key: str) -> Use:
    """A reader whose use is counted."""
    return Use(LOOK, {"key": key})


def put(key: str) -> Use:
    """An idempotent writer."""
    return Use(PUT, {"key": key})


def pay(key: str) -> Use:
    """A writer that must not happen twice."""
    return Use(PAY, {"key": key})


def hang(key: str) -> Use:
    """A writer that has its effect and then never answers."""
    return Use(HANG, {"key": key})


def ask(key: str) -> Use:
    """An idempotent writer whose server asks a person, while the call waits."""
    return Use(ASK, {"key": key})


def command(key: str) -> Use:
    """A command line that writes down its effect."""
    effect = f'{{"tool": "{EXECUTE}", "key": "{key}", "call": "%s", "pid": 0}}'
    return Use(EXECUTE, {"command": f"printf '{effect}\\n' \"$HARNESSD_IDEMPOTENCY_KEY\" >> {EFFECTS}"})


def note(key: str) -> Use:
    """A script that must not happen twice."""
    return Use(NOTE, {"key": key})


def note_again(key: str) -> Use:
    """An idempotent script."""
    return Use(NOTE_AGAIN, {"key": key})


def delegate(number: int) -> Use:
    """A task for a subagent."""
    return Use("delegate", {"agent": "general", "task": f"{BELOW} {number}: do your part"})


READ = Use("read", {"path": "AGENTS.md"})
REMEMBER = Use("remember", {"text": FACT})
TODO = Use("todo", {"todos": [{"text": "pay the bill", "status": "open"}]})
SKILL = Use(
    "write",
    {
        "path": "skills/brew-tea/SKILL.md",
        "content": "---\nname: brew-tea\ndescription: How to brew tea.\n---\n\nBoil the water first.\n",
    },
)
WRITE_REPORT = Use("write", {"path": REPORT, "content": REPORT_TEXT})
LIST = Use(EXECUTE, {"command": "ls"})
ENDLESS = Use(EXECUTE, {"command": "{endless}"})
ENDLESS_JOB = Use(EXECUTE, {"command": "{endless}", "background": True})
PUBLISH = Use("artifact", {"path": REPORT, "title": "Report"})
ALLOWED = Act("allow", "tool.approval_required")

SCENARIOS: tuple[Scenario, ...] = (
    Scenario("approval", "approval", "a call is allowed", (Step((pay("a"),)),), acts=(ALLOWED,), ask=(PAY,)),
    Scenario(
        "approval-later",
        "approval",
        "a call is allowed after the daemon was killed while it waited",
        (Step((look("a"), pay("b"))),),
        acts=(ALLOWED,),
        ask=(PAY,),
        patient=True,
    ),
    Scenario(
        "approval-each",
        "approval",
        "of two calls one is allowed and one denied",
        (Step((pay("a"), pay("b"))),),
        acts=(
            Act("allow", "tool.approval_required", PAY, "a"),
            Act("deny", "tool.approval_required", PAY, "b"),
        ),
        ask=(PAY,),
    ),
    Scenario(
        "question",
        "approval",
        "a server asks a person while its call waits",
        (Step((ask("a"),)), Step((pay("b"),))),
        acts=(ALLOWED,),
    ),
    Scenario(
        "question-later",
        "approval",
        "a server's question is answered after the daemon was killed while it waited",
        (Step((look("a"), ask("b"))),),
        acts=(ALLOWED,),
        patient=True,
    ),
    Scenario("text", "resume", "nothing but an answer"),
    Scenario("reader", "resume", "a reader", (Step((look("a"),)), Step((READ, TODO)))),
    Scenario("readers", "resume", "readers side by side", (Step((look("a"), look("b"), READ, look("c"))),)),
    Scenario("writer", "resume", "writers of the home", (Step((REMEMBER,)), Step((SKILL,)))),
    Scenario("idempotent", "resume", "an idempotent writer", (Step((put("a"), put("b"))),)),
    Scenario("mcp", "resume", "writers of an MCP server", (Step((pay("a"), pay("b"))), Step((pay("c"),)))),
    Scenario(
        "command",
        "resume",
        "commands, one that only reads among them",
        (Step((command("a"), LIST)), Step((command("b"), pay("c"))), Step((command("d"),))),
        needs=(EXECUTE,),
        sandbox=True,
        free=True,
    ),
    Scenario(
        "script",
        "resume",
        "scripts of the home",
        (Step((note("a"), note_again("b"))), Step((note("c"), look("d")))),
        needs=(NOTE, NOTE_AGAIN),
        sandbox=True,
    ),
    Scenario(
        "compaction",
        "resume",
        "a context that becomes too long",
        (Step((look("a"),), LONG), Step((READ,), LONG), Step((look("b"),), LONG), Step((pay("c"),))),
        window=2000,
    ),
    Scenario(
        "stop",
        "stop",
        "a stop while one call is under way and another has not begun",
        (Step((hang("a"), pay("b"))),),
        acts=(Act("stop", "tool.call.running", HANG),),
    ),
    Scenario(
        "stop-waiting",
        "stop",
        "a stop while a call waits for a person",
        (Step((pay("a"),)),),
        acts=(Act("stop", "tool.approval_required"),),
        ask=(PAY,),
    ),
    Scenario(
        "stop-processes",
        "stop",
        "a stop while a command runs that will not end",
        (Step((WRITE_REPORT,)), Step((pay("a"),))),
        acts=(Act("stop", "tool.call.running", "write"),),
        checks=({"after": "write(work/**)", "command": "{endless}", "timeout": 60},),
        sandbox=True,
    ),
    Scenario(
        "stop-command",
        "stop",
        "a stop while commands run that will not end, one of them in the background",
        (Step((ENDLESS_JOB, ENDLESS, command("a"))),),
        acts=(Act("stop", "tool.call.running", EXECUTE),),
        needs=(EXECUTE,),
        sandbox=True,
        free=True,
    ),
    Scenario(
        "stop-subagent",
        "stop",
        "a stop while a subagent works",
        (Step((delegate(1), pay("b"))),),
        below=(Step((hang("a"),)),),
        acts=(Act("stop", "tool.call.running", HANG),),
    ),
    Scenario(
        "artifact",
        "artifact",
        "a file is published",
        (Step((WRITE_REPORT,)), Step((PUBLISH,)), Step((pay("a"),))),
        needs=("artifact",),
    ),
    Scenario(
        "artifact-kept",
        "artifact",
        "a run is stopped after it published a file",
        (Step((WRITE_REPORT,)), Step((PUBLISH,)), Step((hang("a"),))),
        acts=(Act("stop", "tool.call.running", HANG),),
        needs=("artifact",),
    ),
    Scenario(
        "subagent",
        "subagent",
        "a subagent does the work",
        (Step((delegate(1),)), Step((pay("z"),))),
        below=(Step((pay("a{n}"),)), Step((REMEMBER,)), Step((look("b{n}"),))),
    ),
    Scenario(
        "subagents",
        "subagent",
        "two subagents side by side",
        (Step((delegate(1), delegate(2))),),
        below=(Step((pay("a{n}"), look("b{n}"))),),
    ),
    Scenario(
        "subagent-approval",
        "subagent",
        "a subagent waits for a person",
        (Step((delegate(1),)),),
        below=(Step((pay("a{n}"),)),),
        acts=(ALLOWED,),
        ask=(PAY,),
    ),
)
