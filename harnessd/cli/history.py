"""How did an agent come to be what it is, and what did a run make of it?"""

from dataclasses import dataclass

import click

from harnessd.cli.find import LAST, RunPlace, SessionPlace, find_run, said_before_runs
from harnessd.cli.harmless import harmless, one_line
from harnessd.cli.options import Flags, shared
from harnessd.cli.output import Output
from harnessd.cli.when import day_and_time, moment
from harnessd.daemon.config import load_settings
from harnessd.errors import HarnessdError, RunNotFound, UsageError
from harnessd.facts.event import MessageCreated, RunFinished
from harnessd.facts.message import AssistantMessage, text_of
from harnessd.home import history
from harnessd.home.history import LogEntry, Used
from harnessd.home.layout import Home, find_home, list_homes
from harnessd.home.validity import invalid


@click.command("log")
@click.argument("agent")
@click.argument("paths", nargs=-1)
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most this many changes."
)
@shared
def log(agent: str, paths: tuple[str, ...], limit: int, out: Output, flags: Flags) -> int:
    """Tell how AGENT changed, the newest first: what, who, when, and what was said that caused it.

    With PATHS (skills/, MEMORY.md), only the changes of these.
    """
    home = find_home(agent, load_settings(flags).workspaces)
    entries = history.log(home, paths=paths, limit=limit)
    causes = Causes(home)
    for entry in entries:
        because = causes.of(entry)
        if out.as_json:
            more = {"because": because} if because is not None else {}
            out.record(entry.model_dump(mode="json", by_alias=True) | more)
        else:
            tell_entry(entry, because, out)
    if not entries and not out.as_json:
        out.note("nothing is committed yet" if not paths else "no commit touched that")
    return 0


@click.command("why")
@click.argument("agent", metavar="AGENT|RUN")
@click.argument("run_id", metavar="[RUN]", required=False)
@shared
def why(agent: str, run_id: str | None, out: Output, flags: Flags) -> int:
    """Tell which version of which file a run used, the commit that last set it, and what the run answered.

    Without RUN, the agent's last run. RUN alone is looked for in all homes of the workspaces folder.
    """
    workspaces = load_settings(flags).workspaces
    if run_id is None and agent.startswith("run_"):
        home, place = _in_any_home(list_homes(workspaces), agent)
    else:
        home = find_home(agent, workspaces)
        place = find_run(home, run_id or LAST)
    started = place.started
    used = history.why(home, started.pin, started.head, last_good=started.last_good, invalid=invalid)
    said = _Said(said_before_runs(place.session).get(started.run_id or ""), *_outcome(place))
    if out.as_json:
        out.record(_as_record(home, place, used, said))
    else:
        _tell_why(home, place, used, said, out)
    return 0


@dataclass(frozen=True, slots=True)
class _Said:
    """What a run was asked, what it answered last, and why it ended; None where there is no such thing."""

    asked: str | None
    answered: str | None
    ended: str | None


class Causes:
    """What a person said that led to a commit; reads each journal once."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._read: dict[tuple[str, str], dict[str, str]] = {}

    def of(self, entry: LogEntry) -> str | None:
        """The words, or None if no run made the commit or its session is not in the home."""
        agent, session, run = (entry.trailers.get(key, "") for key in ("agent", "session", "run"))
        if not (agent and session and run):
            return None
        if (agent, session) not in self._read:
            self._read[agent, session] = self._said(agent, session)
        return self._read[agent, session].get(run)

    def _said(self, agent: str, session: str) -> dict[str, str]:
        try:
            return said_before_runs(SessionPlace(agent, session, self._home.journal(agent, session)))
        except HarnessdError:
            return {}  # trailers that name no session, or an unreadable journal: git's part still holds


def tell_entry(entry: LogEntry, because: str | None, out: Output) -> None:
    """One commit: what and who, then when and how much, then why."""
    style = out.style
    who = style.good(one_line(entry.author)) if entry.kind == "agent" else one_line(entry.author)
    out.line(f"{style.odd(entry.commit[:10])}  {style.bold(one_line(entry.subject, 90))}  {who}")
    origin = f", origin {entry.trailers['origin']}" if "origin" in entry.trailers else ""
    size = f"+{entry.plus} -{entry.minus}"
    named = ", ".join(harmless(path) for path in entry.paths[:3]) + (" …" if len(entry.paths) > 3 else "")
    out.line(style.dim(f"            {day_and_time(entry.at)}  {size}  {named}{origin}"))
    if "run" in entry.trailers:
        run = entry.trailers["run"]
        out.line(style.dim(f"            because of {run}") + (f": “{one_line(because, 80)}”" if because else ""))


def _in_any_home(homes: list[Home], run_id: str) -> tuple[Home, RunPlace]:
    for home in homes:
        try:
            return home, find_run(home, run_id)
        except RunNotFound:
            continue
    if not homes:
        raise UsageError("there are no homes in the workspaces folder", hint="name the home: harnessd why ./ada RUN")
    raise RunNotFound(f"no home in the workspaces folder has a run {run_id}", hint="harnessd why AGENT RUN")


def _outcome(place: RunPlace) -> tuple[str | None, str | None]:
    answered = ended = None
    for event in place.events():
        match event:
            case MessageCreated(message=AssistantMessage() as message) if text_of(message).strip():
                answered = text_of(message)
            case RunFinished(reason=reason):
                ended = reason
    return answered, ended


def _as_record(home: Home, place: RunPlace, used: tuple[Used, ...], said: _Said) -> dict[str, object]:
    started = place.started
    told: dict[str, object] = {
        "home": str(home.path),
        "runId": started.run_id,
        "sessionId": place.session.session_id,
        "agentId": place.session.agent_id,
        "at": started.at,
        "model": started.model,
        "mode": started.mode,
        "pin": started.pin,
        "head": started.head,
        "dirty": started.dirty,
        "asked": said.asked,
        "answered": said.answered,
        "ended": said.ended,
        "files": [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in used],
    }
    return {key: value for key, value in told.items() if value is not None}


def _tell_why(home: Home, place: RunPlace, used: tuple[Used, ...], said: _Said, out: Output) -> None:
    style, started = out.style, place.started
    out.line(f"{style.bold(started.run_id or '')}  {moment(started.at)}  {home.name}, {place.session.session_id}")
    if said.asked is not None:
        out.line(f"asked   “{one_line(said.asked, 200)}”")
    if said.answered is not None:
        out.line(f"said    “{one_line(said.answered, 200)}”")
    out.line(f"ended   {(said.ended or 'not yet').replace('_', ' ')}")
    out.line(f"model   {started.model or '?'}, mode {started.mode}")
    edits = ", with edits that were not committed" if started.dirty else ""
    out.line(f"home    pin {started.pin[:10]}, commit {(started.head or 'none')[:10]}{edits}")
    out.line("used")
    width = max((len(one.path) for one in used), default=0)
    for one in used:
        path = f"  {harmless(one.path).ljust(width)}  {style.dim(one.blob[:10])}  "
        stands_in = style.bad("  an older version: the file was broken") if one.stands_in else ""
        if one.commit is None:
            out.line(path + style.odd("not committed when it was used") + stands_in)
        else:
            run = style.dim(f" by {one.run}") if one.run else ""
            known = f"{style.odd(one.commit[:10])} {day_and_time(one.at)}  {one_line(one.subject, 60)}{run}"
            out.line(path + known + stands_in)
