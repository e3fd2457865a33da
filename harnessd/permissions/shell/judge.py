"""What may this command line do? The worst of what its simple commands may."""

import functools
import re
from collections.abc import Iterable, Iterator

from harnessd.permissions.shell.awk import awk_finding
from harnessd.permissions.shell.builtins import special
from harnessd.permissions.shell.find import find_commands
from harnessd.permissions.shell.git import git_finding
from harnessd.permissions.shell.judged import READS, Finding, Judged, SimpleCommand, unclear, unknown, worst
from harnessd.permissions.shell.line import Assignment, Call, Obscure, Redirect
from harnessd.permissions.shell.options import by_table, places
from harnessd.permissions.shell.places import reading, writing
from harnessd.permissions.shell.sed import sed_finding
from harnessd.permissions.shell.table import DECODERS, SAFE_NAMES
from harnessd.permissions.shell.tree import read_line
from harnessd.permissions.shell.word import ANYTHING, Word, shown
from harnessd.permissions.shell.wrappers import Script, behind

DEEPEST = 4
"""Wrappers and `sh -c` inside each other; more of them is no command of daily work."""


@functools.lru_cache(maxsize=1024)
def judge(command: str) -> Judged:
    """The level of a whole line, why, and its simple commands. Pure; raises nothing."""
    try:
        return _judge(command, 0)
    except (RecursionError, UnicodeError):
        return Judged("unclear", "it is not understood")


def _judge(command: str, depth: int) -> Judged:
    line = read_line(command)
    if isinstance(line, Obscure):
        return Judged("unclear", line.reason)
    if not line.calls:
        return Judged("unclear", "there is no command in it")
    commands = tuple(one for call in line.calls if call.words for one in _simple(call.words, (call.words,), depth))
    beside = [_settings(call) for call in line.calls]
    beside += [_left_work(commands, beside), _decoded(commands)]
    found = worst((*beside, *(command.finding for command in commands)))
    targets = tuple(redirect.target for call in line.calls for redirect in call.redirects if ">" in redirect.operator)
    return Judged(found.level, found.reason, commands, worst(beside), targets)


def _simple(words: tuple[Word, ...], ways: tuple[tuple[Word, ...], ...], depth: int) -> Iterator[SimpleCommand]:
    """The command, or those behind it: a wrapper itself is only what it says of itself."""
    first, rest = words[0], words[1:]
    if depth > DEEPEST:
        yield SimpleCommand(words, ways, unclear("commands are wrapped too deep"))
        return
    if not first.fixed:
        yield SimpleCommand(words, ways, unclear(f"{shown(words)}: which command that is shows only at the run"))
        return
    name = own_name(first.text)
    if name is None:
        yield SimpleCommand(words, ways, unknown(f"{shown(words)}: a program of its own is run"))
        return
    inner = behind(name, rest)
    if isinstance(inner, Finding):
        yield SimpleCommand(words, ways, inner)
    elif isinstance(inner, Script):
        judged = _judge(inner.text, depth + 1)
        for command in judged.commands:
            yield SimpleCommand(command.words, (*ways, *command.ways), command.finding)
        if not judged.commands or judged.beside.level != "reads":
            yield SimpleCommand(words, ways, worst((judged.beside, Finding(judged.level, judged.reason))))
    elif inner is not None:
        yield from _simple(inner.words, (*ways, inner.words), depth + 1)
        said = worst((inner.finding, *(_assigned(setting, "a command") for setting in inner.assignments)))
        if said.level != "reads":
            yield SimpleCommand(words, ways, said)
    elif name == "find":
        finding, run = find_commands(rest)
        named = places([word for word in rest if not word.text.startswith("-")])
        yield SimpleCommand(words, ways, worst((finding, named)))
        for command_words in run:
            yield from _simple(command_words, (command_words,), depth + 1)
    elif name == "git":
        finding, asked = _git(rest)
        yield SimpleCommand(words, (*ways, (Word("git"), *asked)), finding)
    else:
        yield SimpleCommand(words, ways, _finding(name, rest))


def _finding(name: str, rest: tuple[Word, ...]) -> Finding:
    if name == "sed":
        return sed_finding(rest)
    if name in {"awk", "gawk", "mawk", "nawk"}:
        return awk_finding(rest)
    handler = special(name)
    return handler(rest) if handler else by_table(name, rest)


def _git(rest: tuple[Word, ...]) -> tuple[Finding, tuple[Word, ...]]:
    """The finding on a git command, and its words from the subcommand on."""
    finding, asked = git_finding(rest)
    if finding.level == "unknown" and asked and asked == rest:
        row = by_table("git", asked)
        finding = finding if row.level == "unknown" else row
    return worst((finding, places(rest))), asked


_TRUSTED = re.compile(r"/(?:usr/(?:local/)?)?s?bin/([A-Za-z0-9_.+\[-]+)")


def own_name(text: str) -> str | None:
    """The command's own name; None for a program that is not the system's."""
    if "/" not in text:
        return text
    found = _TRUSTED.fullmatch(text)
    return found[1] if found else None


def _settings(call: Call) -> Finding:
    """What the assignments and redirections of a call make of it."""
    found = [_redirected(redirect) for redirect in call.redirects]
    what = "declared" if call.declares else "a command" if call.words else "alone"
    reads = bool(call.words) and call.words[0].text == "read"
    for assignment in call.assignments:
        if reads and assignment.name == "IFS" and assignment.value is not None and assignment.value.fixed:
            continue
        found.append(_assigned(assignment, what))
    return worst(found)


_DANGEROUS = re.compile(
    r"(?:LD_|DYLD_|BASH|GIT_|PYTHON|PERL|RUBY|NODE|NPM_|LESS|JAVA|JDK_|_JAVA|MALLOC_|GCONV|PIP_|UV_|SSH_|GPG|CARGO|RUST|GO[A-Z]"
    r"|XDG_|HARNESSD|PS[0-9]|HIST|PROMPT).*"
    r"|.*(?:PATH|PAGER|EDITOR|SHELL|SHELLOPTS|OPTS|OPTIONS|PROXY|HOME|COMMAND|BROWSER|VISUAL|IGNORE)"
    r"|IFS|ENV|PWD|OLDPWD|TMPDIR|TMP|TEMP|POSIXLY_CORRECT|BC_.*|TIMEFORMAT|RIPGREP.*|TAR.*|GZIP|BZIP2?|XZ_.*|ZSTD.*|UNZIP.*|GREP_.*|AWK.*|JQ.*"
    r"|FUNCNEST|OPTIND|OPTARG|REPLY|COMPREPLY|DIRSTACK|GROUPS|UID|EUID|PPID|RANDOM|SECONDS|LINENO|HOST.*|MAIL.*|CC|CXX|MAKE.*|LOCALDOMAIN"
    r"|RES_OPTIONS|TERMINFO.*|TERMCAP|NLSPATH|LANGUAGE_.*|LOCPATH|USER|LOGNAME"
)


def _assigned(assignment: Assignment, what: str) -> Finding:
    name, value = assignment.name, assignment.value
    place = READS if value is None else reading(value)
    if name == "_":
        return place
    if name in SAFE_NAMES:
        return (
            READS
            if value is not None and re.fullmatch(r"[A-Za-z0-9_.:@+-]*", value.text)
            else unclear(f"{name} is set to more than a name")
        )
    if _DANGEROUS.fullmatch(name.upper() if name.isupper() else name) or _DANGEROUS.fullmatch(name):
        return unclear(f"{name} is set, which changes what commands do")
    if what == "alone":
        return place
    return worst((unknown(f"{name} is set for a command, which may obey it"), place))


def _redirected(redirect: Redirect) -> Finding:
    target = redirect.target
    if redirect.operator in {">&", "<&"} and re.fullmatch(r"[0-9]+-?|-", target.text):
        return READS
    if target.many:
        return unclear(f"{redirect.operator} {target}: where that is shows only at the run")
    if redirect.operator == "<":
        return (
            unclear("< /dev/tcp goes to the network")
            if "tcp/" in target.text or "udp/" in target.text
            else reading(target)
        )
    if target.text in {"/dev/null", "/dev/stdout", "/dev/stderr"}:
        return READS
    if target.text.startswith("-"):
        return unclear(f"{redirect.operator} {target}: a file of that name would pass for an option")
    return writing(target)


def _left_work(commands: tuple[SimpleCommand, ...], beside: Iterable[Finding]) -> Finding:
    """Relative names lie elsewhere once the line has gone elsewhere."""
    left = any(
        command.words[0].text == "cd" and (len(command.words) < 2 or _leaves(command.words[1].text))
        for command in commands
    )
    harmless = all(found.level == "reads" for found in (*beside, *(command.finding for command in commands)))
    return READS if harmless or not left else unknown("the line leaves work/ before it writes")


def _leaves(folder: str) -> bool:
    return folder.startswith(("/", "~")) or ".." in folder.split("/") or ANYTHING in folder


_SPEAK = frozenset(("echo", "printf", "test", "[", "[["))
_CODES = re.compile(r"\\x[0-9a-fA-F]{2}|\\0?[0-7]{3}")


def _decoded(commands: tuple[SimpleCommand, ...]) -> Finding:
    """Decoded text that becomes an operand could name anything."""
    names = {own_name(command.words[0].text) for command in commands}
    placed = any(
        word.computed and word.text.startswith(ANYTHING)
        for command in commands
        if own_name(command.words[0].text) not in _SPEAK
        for word in command.words[1:]
    )
    if placed and (names & DECODERS or any(_CODES.search(word.text) for one in commands for word in one.words[1:])):
        return unknown("what is decoded becomes a name or an option")
    return READS
