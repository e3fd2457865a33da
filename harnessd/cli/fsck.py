"""Is everything that the runtime wrote into a home as it should be?"""

from pathlib import Path

import click

from harnessd.cli.exits import COMPLETED, FAILED
from harnessd.cli.harmless import harmless
from harnessd.cli.options import Flags, shared
from harnessd.cli.output import Output
from harnessd.daemon.config import load_settings
from harnessd.errors import HarnessdError
from harnessd.home.layout import Home, find_home
from harnessd.journal.finding import Finding
from harnessd.journal.fsck import AgentFolders, repair
from harnessd.journal.fsck import fsck as findings_in
from harnessd.journal.session_files import SessionFiles


@click.command("fsck")
@click.argument("agent")
@click.option(
    "--repair", "mend", is_flag=True, help="Remove checkpoints that are no use; journals are never rewritten."
)
@shared
def fsck(agent: str, mend: bool, out: Output, flags: Flags) -> int:
    """Check every journal, checkpoint, stored result and artifact in the home of AGENT.

    Reads only, and may run while the daemon does. Exit code 5 if anything is worse than a notice. With --repair it
    removes copies that are made again and what is left over of deleted sessions, and nothing else.
    """
    settings = load_settings(flags)
    home = find_home(agent, settings.workspaces)
    problems = notices = 0
    repairable: dict[Path, SessionFiles] = {}
    for finding in findings_in(home.path, agent_folders(home), settings.trusted_links):
        _tell(finding, home.path, out)
        if finding.repairable is not None:
            repairable[finding.repairable.journal] = finding.repairable
        if mend and finding.repairable is not None:
            continue
        notices += finding.severity == "notice"
        problems += finding.severity != "notice"
    if mend:
        problems += sum(not _mended(files, home.path, out) for files in repairable.values())
    if not out.as_json:
        told = f"{problems} problem{'s' if problems != 1 else ''}, {notices} notice{'s' if notices != 1 else ''}"
        out.note(told if problems or notices else out.side.good("nothing is wrong"))
    return FAILED if problems else COMPLETED


def agent_folders(home: Home) -> list[AgentFolders]:
    """The folders of each agent that ran in the home."""
    agents = home.path / "agents"
    names = sorted(entry.name for entry in agents.iterdir() if entry.is_dir()) if agents.is_dir() else []
    return [_folders(home, name) for name in names]


def _folders(home: Home, agent_id: str) -> AgentFolders:
    agent = home.path / "agents" / agent_id

    def files(session_id: str) -> SessionFiles:
        context, evicted, artifacts = (agent / name / session_id for name in ("context", "evicted", "artifacts"))
        journal = home.sessions(agent_id) / f"{session_id}.jsonl"
        return SessionFiles(agent_id, session_id, journal, context / "state.json", evicted, artifacts)

    by_session = tuple(agent / name for name in ("context", "evicted", "artifacts"))
    return AgentFolders(agent_id, home.sessions(agent_id), by_session, files)


def _mended(files: SessionFiles, home: Path, out: Output) -> bool:
    """Removes what can go and says so; whether it could be done."""
    try:
        gone = repair(files, home)
    except HarnessdError as error:
        out.note(f"not repaired: {error}")
        return False
    for path in gone:
        out.note(f"removed {path.relative_to(home)}")
    return True


def _tell(finding: Finding, home: Path, out: Output) -> None:
    path = str(finding.path.relative_to(home))
    if out.as_json:
        told = {
            "path": path,
            "line": finding.line,
            "byte": finding.byte,
            "severity": finding.severity,
            "code": finding.code,
            "message": finding.message,
            "fix": finding.way_out,
            "repairable": finding.repairable is not None,
        }
        out.record({key: value for key, value in told.items() if value is not None})
        return
    style = out.style
    paint = {"error": style.bad, "warning": style.odd}.get(finding.severity, style.dim)
    where = f"{path}:{finding.line}" if finding.line else path
    said = f"{paint(finding.severity)}: {harmless(finding.message)} {style.dim(f'({finding.code})')}"
    out.line(f"{style.place(harmless(where))}: {said}\n  {harmless(finding.way_out)}")
