"""Which command runs behind a wrapper: `env`, `timeout`, `nice`, `xargs`, `sh -c` …?"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harnessd.permissions.shell.judged import READS, Finding, unclear, unknown
from harnessd.permissions.shell.line import Assignment
from harnessd.permissions.shell.word import ANYTHING, Word, names


@dataclass(frozen=True, slots=True)
class Behind:
    """The command behind a wrapper, the variables set for it, and what is to be said of the wrapper itself."""

    words: tuple[Word, ...]
    finding: Finding = READS
    assignments: tuple[Assignment, ...] = ()


@dataclass(frozen=True, slots=True)
class Script:
    """A command line within the line: `sh -c '…'`."""

    text: str


NEVER = names(
    "sudo doas su runuser ssh docker podman kubectl unshare chroot nsenter systemd-run setpriv capsh bwrap watch "
    "parallel script expect eval source . trap alias unalias enable hash shopt let mapfile readarray getopts "
    "coproc dc busybox toybox setsid ltrace strace gdb at batch crontab socat nc ncat netcat telnet "
    "bind complete compgen history fc suspend dirs pushd popd ulimit caller logout flock ionice chrt taskset "
    "start-stop-daemon run-parts entr inotifywait mkfifo mknod mount umount insmod"
)
"""What hides the command it runs, changes how the rest of the line is read, or leaves the sandbox's frame."""

_SHELLS = frozenset(["sh", "bash", "dash"])


def behind(name: str, words: Sequence[Word]) -> Behind | Script | Finding | None:
    """What `name`, given `words`, runs; None if it is no wrapper; a finding if that can't be told."""
    if name in NEVER:
        return unclear(f"{name}: what it runs or changes is not judged")
    if name in _SHELLS:
        return _shell(name, words)
    simple = {
        "nice": (r"-n[0-9]+|-[0-9]+|--adjustment=[0-9]+", "-n"),
        "timeout": (
            r"--foreground|--preserve-status|-v|--verbose|-[ks][A-Z0-9.]+|--(?:signal|kill-after)=[A-Z0-9.smh]+",
            "-k -s",
        ),
        "time": (r"-p", ""),
        "stdbuf": (r"-[ioe][0L]|-[ioe][0-9]+", "-i -o -e"),
        "command": (r"-p", ""),
        "builtin": (r"", ""),
    }
    if name in simple:
        return _simple(name, *simple[name], words, skip=1 if name == "timeout" else 0)
    if name == "exec":
        return _simple(name, "", "", words, skip=0) if words else unclear("exec changes the shell itself")
    if name == "nohup":
        return Behind(tuple(words), unknown("nohup writes nohup.out"))
    if name == "env":
        return _env(words)
    if name == "xargs":
        return _xargs(words)
    return None


def _simple(name: str, alone: str, valued: str, words: Sequence[Word], *, skip: int) -> Behind | Finding:
    rest = list(words)
    if name == "command" and rest and rest[0].text in {"-v", "-V"}:
        return READS
    while rest and rest[0].is_option:
        word = rest.pop(0)
        if word.text == "--":
            break
        if word.fixed and word.text in valued.split() and rest and re.fullmatch(r"[A-Z0-9.smh]+", rest[0].text):
            rest.pop(0)
        elif not (word.fixed and re.fullmatch(alone, word.text)):
            return unclear(f"{name} {word}: what runs behind it is not plain")
    for _ in range(skip):
        if not rest or not re.fullmatch(r"[0-9.]+[smhd]?", rest.pop(0).text):
            return unclear(f"{name}: what runs behind it is not plain")
    if not rest:
        return READS if name == "time" else unclear(f"{name}: nothing runs behind it")
    return Behind(tuple(rest))


def _env(words: Sequence[Word]) -> Behind | Finding:
    rest, said = list(words), READS
    assignments: list[Assignment] = []
    while rest and rest[0].is_option:
        word = rest.pop(0)
        if word.text in {"-0", "--null"}:
            continue
        if word.text == "--":
            break
        if word.text in {"-u", "--unset"} and rest and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", rest[0].text):
            assignments.append(Assignment(rest.pop(0).text, None))
        elif taken := re.fullmatch(r"(?:--unset=|-u)([A-Za-z_][A-Za-z0-9_]*)", word.text):
            assignments.append(Assignment(taken[1], None))
        elif word.text in {"-i", "--ignore-environment"}:
            said = unclear(f"env {word}: it takes away the variables that keep programs from running others")
        else:
            return unclear(f"env {word}: what runs behind it is not plain")
    while rest and "=" in rest[0].text:
        word = rest.pop(0)
        name, _, value = word.text.partition("=")
        if word.many or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            return unclear(f"env {word}: what it sets is not plain")
        assignments.append(Assignment(name, Word(value)))
    if rest and (rest[0].many or ANYTHING in rest[0].text):
        return unclear("env: what runs behind it is not plain")
    return Behind(tuple(rest), said, tuple(assignments)) if rest else READS


def _xargs(words: Sequence[Word]) -> Behind | Finding:
    """The command with operands of anybody's choice behind its own."""
    rest, mark = list(words), ""
    while rest and rest[0].is_option:
        word = rest.pop(0)
        mark = word.text[2:] if word.text.startswith("-I") else mark
        if word.text == "-I" and rest and rest[0].fixed:
            mark = rest[0].text
        if word.fixed and word.text in {"-n", "-L", "-P", "-d", "-I", "-s", "-E"} and rest and not rest[0].many:
            rest.pop(0)
        elif not (
            word.fixed
            and re.fullmatch(
                r"-[0rtx]+|-[nLPs][0-9]+|-I\S+|-d.+|--null|--no-run-if-empty|--verbose|--max-(?:args|procs|lines)=[0-9]+",
                word.text,
            )
        ):
            return unclear(f"xargs {word}: what runs behind it is not plain")
    given = Word(ANYTHING, many=True, loose=True, computed=True)
    return Behind((*(filled(word, mark) for word in rest or [Word("echo")]), given))


def filled(word: Word, mark: str) -> Word:
    """The word with whatever comes in place of `mark`."""
    if not mark or mark not in word.text:
        return word
    text = word.text.replace(mark, ANYTHING)
    return Word(text, word.many, word.loose or text.startswith(ANYTHING), computed=True)


def _shell(name: str, words: Sequence[Word]) -> Script | Finding:
    if len(words) >= 2 and words[0].text in {"-c", "-ec", "-ce"} and words[1].fixed:
        return Script(words[1].text)
    if any(word.text.startswith("-") and "c" in word.text for word in words) or not words:
        return unclear(f"{name}: the command line that it runs is not plain")
    return unknown(f"{name} runs a script that is not judged")
