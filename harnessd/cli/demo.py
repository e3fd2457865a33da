"""What is it all about? Shown in ten seconds, with no key and no network."""

import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import click

from harnessd.cli.exits import COMPLETED, FAILED
from harnessd.cli.follow import following
from harnessd.cli.harmless import harmless
from harnessd.cli.options import Flags, shared
from harnessd.cli.output import Output
from harnessd.cli.render import diff_text, result_line
from harnessd.cli.templates import DEFAULT, find_template
from harnessd.cli.when import day_and_time
from harnessd.daemon.assemble import Runtime
from harnessd.daemon.config import Settings, load_settings
from harnessd.errors import HarnessdError, UsageError
from harnessd.facts.control import Invoke
from harnessd.facts.event import Delta, Event, MessageCreated, ToolCallCompleted, ToolCallCreated, write_event
from harnessd.facts.message import AssistantMessage, JsonObject, UserMessage, text_of
from harnessd.home import history
from harnessd.home.create import create
from harnessd.home.layout import AGENTS, KNOWLEDGE, MEMORY, TOOLS, Home
from harnessd.home.trust import TrustStore

RULE = '- Begin every answer with "Ahoy!"'
TALK = ("Who are you?",)
LESSONS = (
    "Remember that my tea is black, without sugar.",
    "Learn a skill brew-tea: boil the water; let it steep for four minutes; no sugar",
)
RECALL = ("What do you know about my tea?", "How do I brew tea?")
_FILES = {
    AGENTS: "who it is, and its rules",
    KNOWLEDGE: "the background of its field",
    MEMORY: "what it learned; empty yet",
    TOOLS: "its MCP servers; what is allowed, asked, denied",
    ".gitignore": "what it says and makes stays beside git's history, in agents/ and work/",
}
WIDTH = 96


@click.command("demo")
@click.option("--keep", type=click.Path(path_type=Path), help="Make the home at this path and leave it there.")
@shared
def demo(keep: Path | None, out: Output, flags: Flags) -> int:
    """See it all in ten seconds, with no key and no network.

    A home is made, a program that is no AI takes the model's place, a file is edited and the next call obeys it,
    the agent learns a fact and a skill, and git knows who learned what, when and why. Without --keep nothing of
    it stays.
    """
    with _place(keep) as (folder, home):
        named = flags if keep is not None else {"workspaces": folder / "workspaces", "state_dir": folder / "state"}
        settings = load_settings(named | {"model": "offline"}, None if keep is not None else {})
        return anyio.run(_play, settings, home, keep is not None, out)


@contextmanager
def _place(keep: Path | None) -> Iterator[tuple[Path, Path]]:
    """A scratch folder, and where the home will be."""
    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise UsageError("this path is in use", where=str(keep), hint="give --keep a new path, or an empty folder")
    with TemporaryDirectory(prefix="harnessd-demo-", ignore_cleanup_errors=True) as scratch:
        yield Path(scratch), (keep or Path(scratch, "workspaces", "ada")).absolute()


async def _play(settings: Settings, place: Path, kept: bool, out: Output) -> int:
    stage = _Stage(out, place.name)
    async with Runtime.open(settings, env={}) as runtime:
        stage.act("A home", "A directory under git is the agent. No database says what it is.")
        home = await anyio.to_thread.run_sync(_make, place, settings)
        stage.files(home)

        stage.act("A conversation", "Every call reads the home.")
        await _talk(runtime, home, TALK, stage)

        stage.act("You edit AGENTS.md", "Nothing is restarted; the next call obeys.")
        stage.edit(await anyio.to_thread.run_sync(_edit, home))
        await _talk(runtime, home, TALK, stage)

        stage.act("It learns", "A fact and a skill, each written back as a commit of its own.")
        await _talk(runtime, home, LESSONS, stage)

        stage.act("It has learned", "Another session, another day: the home knows.")
        await _talk(runtime, home, RECALL, stage)

        stage.act("git log", "Who learned what, when and why.")
        commits = await anyio.to_thread.run_sync(history.log, home)
        stage.log(commits, home)

        stage.act("git revert", "What it should not have learned is gone with the next call.")
        lesson = next(one for one in commits if "MEMORY.md" in one.paths and one.kind == "agent")
        await _revert(home, lesson.commit)
        stage.typed(f"git revert {lesson.commit[:10]}")
        await _talk(runtime, home, RECALL[:1], stage)
    stage.curtain(place, kept)
    return COMPLETED if stage.went_well else FAILED


def _make(place: Path, settings: Settings) -> Home:
    return create(place, template=find_template(DEFAULT), trust=TrustStore(settings.state_dir)).home


def _edit(home: Home) -> str:
    """Adds one rule at the end, as a person would; returns the diff."""
    agents = home.path / AGENTS
    text = agents.read_text(encoding="utf-8")
    agents.write_text(text.rstrip("\n") + f"\n{RULE}\n", encoding="utf-8")
    return f" {text.rstrip().splitlines()[-1]}\n+{RULE}"


async def _revert(home: Home, commit: str) -> None:
    """As a person would, under a name that the demo brings along: this machine's git may know none."""
    who = ("-c", "user.name=you", "-c", "user.email=you@localhost", "-c", "commit.gpgsign=false")
    await anyio.run_process(["git", "-C", str(home.path), *who, "revert", "--no-edit", commit], stderr=None)


async def _talk(runtime: Runtime, home: Home, inputs: tuple[str, ...], stage: "_Stage") -> None:
    """Says these things in a session of their own."""
    session = await runtime.session(home)
    async with following(session, stage, 0) as follower:
        for text in inputs:
            await session.control(Invoke(input=text))
            state = await follower.settled()
            if state.last_run is None or state.last_run.reason != "completed":
                reason = state.last_run.reason if state.last_run else "nothing ran"
                raise HarnessdError(f"the demo went wrong: {reason}", where=str(home.path))


class _Stage:
    """Where the demo is shown: to a person as a play in acts, to a program as records."""

    def __init__(self, out: Output, name: str) -> None:
        self.went_well = True
        self._out = out
        self._name = name
        self._acts = 0
        self._arguments: dict[str, JsonObject | None] = {}

    def act(self, title: str, said: str) -> None:
        """A new act begins."""
        self._acts += 1
        if self._out.as_json:
            self._out.record({"act": self._acts, "title": title})
            return
        style = self._out.style
        self._out.line()
        self._out.line(f"{style.place(str(self._acts))}  {style.bold(title)}  {style.dim(said)}")
        self._out.line()

    def files(self, home: Home) -> None:
        """What is in the home."""
        for path in sorted(home.path.iterdir()):
            if path.is_file() and not self._out.as_json:
                self._out.line(f"   {path.name.ljust(13)} {self._out.style.dim(_FILES.get(path.name, ''))}".rstrip())

    def edit(self, diff: str) -> None:
        """What the person changed."""
        if not self._out.as_json:
            self._out.line(diff_text(diff, self._out.style))
            self._out.line()

    def typed(self, command: str) -> None:
        """What the person typed in a shell."""
        if not self._out.as_json:
            self._out.line(f"   {self._out.style.dim('$')} {command}")
            self._out.line()

    def show(self, item: Event | Delta) -> None:
        """A fact of a session."""
        if self._out.as_json:
            if isinstance(item, Event):
                self._out.record(write_event(item))
            return
        match item:
            case MessageCreated(message=UserMessage(kind="input") as message):
                self._say("you", text_of(message))
            case MessageCreated(message=AssistantMessage() as message) if text_of(message).strip():
                self._say(self._name, text_of(message))
            case ToolCallCreated():
                self._arguments[item.tool_call_id] = item.arguments
            case ToolCallCompleted():
                self.went_well = self.went_well and item.status == "ok"
                self._out.line("   " + result_line(item, self._arguments.get(item.tool_call_id), self._out.style))

    def rest(self) -> None:
        """Nothing is left half said."""

    def log(self, entries: tuple[history.LogEntry, ...], home: Home) -> None:
        """The commits, as `git log` tells them."""
        style = self._out.style
        for entry in entries:
            if self._out.as_json:
                self._out.record(entry)
                continue
            self._out.line(f"   {style.odd(f'commit {entry.commit}')}")
            self._out.line(f"   Author: {entry.author}    Date: {day_and_time(entry.at)}")
            self._out.line(f"       {style.bold(harmless(entry.subject))}")
            for name, value in entry.trailers.items():
                if name in {"session", "run", "origin"}:
                    self._out.line(style.dim(f"       Harness-{name.capitalize()}: {harmless(value)}"))
        if not self._out.as_json:
            self._out.line()
            self._out.line(style.dim(f"   {AGENTS} is changed and not committed: your edits are yours to commit."))

    def curtain(self, place: Path, kept: bool) -> None:
        """What to try next."""
        if self._out.as_json:
            self._out.record({"home": str(place) if kept else None, "ok": self.went_well})
            return
        style = self._out.style
        self._out.line()
        self._out.line(style.bold("Now yours"))
        agent = shlex.quote(str(place)) if kept else "ada"
        harnessd = _program(sys.argv[0])
        if kept:
            self._out.line(f"   git -C {agent} log --stat")
        else:
            self._out.line(f"   {harnessd} init ada --template assistant")
        self._out.line(f"   {harnessd} chat {agent}")
        self._out.line(f'   {harnessd} run {agent} "Who are you?" --model anthropic/claude-sonnet-4-5')
        self._out.line(f"   {harnessd} log {agent}")
        self._out.line()
        self._out.line(
            style.dim("   What answered here is a small program, no AI. With a provider key in the environment,")
        )
        self._out.line(
            style.dim(f"   or with Ollama running, a model takes its place. {harnessd} doctor says what is there.")
        )

    def _say(self, who: str, text: str) -> None:
        style = self._out.style
        head = f"   {who.rjust(4)} › "
        paint = style.place if who == "you" else style.good
        lines = [
            wrapped
            for line in harmless(text).strip().splitlines()
            for wrapped in (textwrap.wrap(line, WIDTH - len(head), break_on_hyphens=False) or [""])
        ]
        for number, line in enumerate(lines):
            self._out.line((paint(head) if number == 0 else " " * len(head)) + line)


def _program(called: str) -> str:
    """How to call harnessd again: by its name if the shell finds it, else as it was called just now."""
    by_path = Path(called).name == "harnessd" and shutil.which("harnessd") is None
    return shlex.quote(called) if by_path else "harnessd"
