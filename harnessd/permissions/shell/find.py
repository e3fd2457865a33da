"""Does a `find` only find?"""

from collections.abc import Sequence

from harnessd.permissions.shell.judged import READS, Finding, unclear, unknown
from harnessd.permissions.shell.word import ANYTHING, Word, names
from harnessd.permissions.shell.wrappers import filled

_ALONE = names(
    "-H -L -P -a -and -o -or -not ! ( ) , -daystart -depth -d -follow -mount -xdev -noleaf -nowarn -warn -empty "
    "-executable -readable -writable -false -true -nogroup -nouser -print -print0 -ls -prune -quit -help --help "
    "-version --version -ignore_readdir_race"
)
_VALUED = names(
    "-maxdepth -mindepth -regextype -amin -anewer -atime -cmin -cnewer -ctime -mmin -mtime -newer -fstype -gid "
    "-group -ilname -iname -inum -ipath -iregex -iwholename -links -lname -name -path -perm -regex -samefile "
    "-size -type -uid -used -user -wholename -xtype -context -printf -newermt -newerat -newerct -newermm -D"
)
_RUNS = frozenset(("-exec", "-execdir"))


def find_commands(words: Sequence[Word]) -> tuple[Finding, list[tuple[Word, ...]]]:
    """What is to be said of `find` itself, and the commands that it runs, each with a path of anybody's choice."""
    commands: list[tuple[Word, ...]] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.loose:
            return unknown(f"find: {word} may become an action"), []
        if word.text in _VALUED:
            if not rest or rest.pop(0).many:
                return unknown(f"find {word}: its value is not plain; quote it"), []
        elif word.text in _RUNS:
            command: list[Word] = []
            while rest and rest[0].text != ";" and not (rest[0].text == "+" and command and command[-1].text == "{}"):
                command.append(rest.pop(0))
            if not rest or not command or any(part.loose for part in command):
                return unknown(f"find {word}: what it runs is not plain"), []
            rest.pop(0)
            commands.append(tuple(_placed(part) for part in command))
        elif word.text.startswith(("-", "(", ")", "!", ",")) and word.text not in _ALONE:
            if word.text == "-delete":
                return unknown("find -delete removes what it finds"), []
            return unclear(f"find {word}: not known to only read"), []
        elif ANYTHING in word.text and not word.text.strip(ANYTHING):
            return unknown(f"find: {word} may become an action"), []
    return READS, commands


def _placed(word: Word) -> Word:
    """`{}` stands for a path below a starting point, which begins with that; a dash there would be an option."""
    return filled(word, "{}")
