"""Does a `git` command only read?

What a repository's own configuration could have git run is kept out by the environment that `execute` gives to a line
that only reads: no fsmonitor, no hooks, no pager, no user's configuration, no bare repository that is not named.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harnessd.permissions.shell.judged import READS, Finding, unclear, unknown, worst
from harnessd.permissions.shell.word import Word, before_operands, named, names

_BEFORE = frozenset(
    ["--no-pager", "--no-optional-locks", "--literal-pathspecs", "--icase-pathspecs", "--version", "--help"]
)
_BEFORE_VALUED = names("-c -C --git-dir --work-tree --namespace --config-env --exec-path --super-prefix")
_REFUSED = names(
    "output ext-diff textconv open-files-in-pager exec upload-pack receive-pack config-env show-signature edit filters "
    "contents-from path-format-from template config separate-git-dir git-dir work-tree"
)
_FREE = names(
    "status log diff show rev-parse ls-files ls-tree blame annotate shortlog describe grep rev-list merge-base "
    "name-rev diff-tree diff-index diff-files show-ref for-each-ref count-objects whatchanged cherry range-diff "
    "show-branch check-ignore check-attr verify-pack cat-file"
)


_WRITES = names(
    "add am apply archive bundle checkout cherry-pick clean clone commit fetch gc init merge mv pull push rebase reset "
    "restore revert rm switch format-patch fsck prune repack pack-refs update-index update-ref symbolic-ref write-tree "
    "read-tree commit-tree hash-object mktag mktree merge-file rerere replace ls-remote"
)
"""What writes, and runs nothing that the line names but what is looked for here."""


@dataclass(frozen=True, slots=True)
class _Forms:
    """A subcommand that only lists in some forms: its options, and how many names may stand beside them."""

    options: str
    names: int | None = 0
    first: str = ""
    alone: bool = True
    """Whether it lists without any word."""


_LISTS: Mapping[str, _Forms] = {
    "branch": _Forms(
        r"-[avrlq]+|-vv|--(?:all|remotes|list|verbose|show-current|no-color|color(?:=\w+)?|ignore-case|column)|--(?:sort|format|contains|merged|no-merged|points-at)(?:=.*)?"
    ),
    "tag": _Forms(
        r"-[ln][0-9]*|--(?:list|no-color|column|ignore-case)|--(?:sort|format|contains|merged|no-merged|points-at)(?:=.*)?"
    ),
    "remote": _Forms(r"-v|--verbose", 2, "get-url"),
    "stash": _Forms(r"-p|--patch|--stat|--oneline|--name-only|-[0-9]+|--format=.*", 1, "list|show", alone=False),
    "config": _Forms(
        r"--(?:get|get-all|get-regexp|list|show-origin|show-scope|name-only|local|global|system|null)|-[lz]",
        2,
        "get|list",
        alone=False,
    ),
    "reflog": _Forms(r"--(?:all|oneline|date=[\w:-]+|format=.*)|-n|-[0-9]+|-n[0-9]+", 2, "show"),
    "worktree": _Forms(r"--porcelain|-v|-z", 0, "list", alone=False),
    "submodule": _Forms(r"--cached|--recursive", 0, "status", alone=False),
    "notes": _Forms(r"", 1, "list|show", alone=False),
    "bisect": _Forms(r"", 0, "log", alone=False),
    "sparse-checkout": _Forms(r"", 0, "list", alone=False),
    "version": _Forms(r"--build-options"),
    "help": _Forms(r"-a|--all"),
}


def git_finding(words: Sequence[Word]) -> tuple[Finding, tuple[Word, ...]]:
    """The finding, and the words from the subcommand on; `unknown` for what writes, `unclear` for what runs others."""
    rest, said = list(words), READS
    while rest and rest[0].is_option:
        word = rest.pop(0)
        if word.text == "-C" and rest and rest[0].fixed and _inside(rest[0].text):
            rest.pop(0)
        elif word.fixed and word.text in _BEFORE:
            if word.text == "--version" and not rest:
                return READS, ()
        else:
            said = unclear(f"git {word}: it can make git run or read anything")
            if word.text in _BEFORE_VALUED and rest:
                rest.pop(0)
    if not rest:
        return said, ()
    if not rest[0].fixed:
        return unclear("git: what it is to do shows only at the run"), tuple(rest)
    return worst((said, _subcommand(rest[0].text, rest[1:]))), tuple(rest)


def _subcommand(name: str, words: Sequence[Word]) -> Finding:
    for word in before_operands(words):
        if not named(word):
            return unclear(f"git {name} {word}: which option that is shows only at the run")
        if word.loose:
            return unknown(f"git {name}: {word} may become an option")
        option = word.text[2:].partition("=")[0] if word.text.startswith("--") else ""
        if option and any(bad.startswith(option) for bad in _REFUSED) and not option.startswith("no-"):
            return unclear(f"git {name} {word}: it can write a file or run a program")
        if name == "grep" and re.match(r"-[^-]*O", word.text):
            return unclear(f"git grep {word}: it opens a program")
    if any("%G" in word.text or "%(signature" in word.text for word in words):
        return unclear("git %G, %(signature): it runs the program that checks signatures")
    if name in _FREE:
        return READS
    if any("::" in word.text for word in words) or _names_program(name, words):
        return unclear(f"git {name}: it can be told to run a program")
    forms = _LISTS.get(name)
    if forms is None and name not in _WRITES:
        return unclear(f"git {name}: it can be told to run a program, or is an alias")
    if forms is None:
        return unknown(f"git {name}: it writes")
    options = [word for word in words if word.text.startswith("-")]
    names = [word for word in words if not word.text.startswith("-")]
    plain = all(word.fixed and re.fullmatch(forms.options, word.text) for word in options)
    if name in {"branch", "tag"}:
        listing = any(
            re.fullmatch(r"-l|--(?:list|contains|merged|no-merged|points-at|sort|format)(?:=.*)?", word.text)
            for word in options
        )
        lists = not names or (listing and all(word.fixed for word in names))
        if (
            lists
            and names
            and not any(
                word.text in {"-l", "--list", "--contains", "--merged", "--no-merged", "--points-at"}
                for word in options
            )
        ):
            lists = False
        return READS if plain and lists else unknown(f"git {name}: only its lists are known to only read")
    if not plain or any(not word.fixed for word in names):
        if name in {"config", "help"}:
            return unclear(f"git {name}: a setting can have git run anything")
        return unknown(f"git {name}: not in a form that is known to only read")
    if name == "config":
        asks = any(re.fullmatch(r"--get.*|--list|-l", word.text) for word in options) or (
            names[:1] and names[0].text in {"get", "list"}
        )
        return READS if asks and len(names) <= 2 else unclear("git config: a setting can have git run anything")
    if forms.first and names:
        good = bool(re.fullmatch(forms.first, names[0].text)) and len(names) - 1 <= (forms.names or 0)
        return READS if good else unknown(f"git {name} {names[0]}: not known to only read")
    if names or not forms.alone:
        return unknown(f"git {name}: not in a form that is known to only read")
    return READS


def _names_program(name: str, words: Sequence[Word]) -> bool:
    """Whether a short option or a word has git run a program that the line or a file names."""
    letters = {"clone": "cu", "fetch": "u", "rebase": "xi", "difftool": "x", "archive": "o"}.get(name, "")
    clusters = [word.text[1:] for word in words if re.match(r"-[A-Za-z]", word.text)]
    actions = {"submodule": {"foreach", "update", "add"}, "bisect": {"run"}, "config": {"edit", "set"}}.get(name, set())
    return any(set(cluster) & set(letters) for cluster in clusters) or any(word.text in actions for word in words)


def _inside(path: str) -> bool:
    return not path.startswith(("/", "~", "-")) and ".." not in path.split("/")
