"""Which commands only read, and with which options? Data, one row a command.

A row of `FREE` reads whatever its options and operands are. A row of `GUARDED` names the options that are known to
keep it so; any other is asked about. A row of `REFUSED` reads but for the options named.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from harnessd.permissions.shell.word import names

FREE = names(
    # text
    "cat head tail wc cut tr nl od comm join paste column fold expand unexpand fmt tac rev cmp diff hexdump hd strings "
    "grep egrep fgrep jq zcat bzcat xzcat base64 base32 cksum sum md5sum sha1sum sha224sum sha256sum sha384sum "
    "sha512sum shasum b2sum tsort numfmt pr look "
    # files
    "ls dir vdir stat du df basename dirname realpath readlink pathchk namei "
    # system
    "pwd whoami id groups logname users who w last uptime nproc free ps uname arch tty locale getconf lscpu lsblk "
    "vmstat printenv which whereis type cal factor expr "
    # flow
    "echo true false : sleep seq yes bc"
)
"""Whatever the options: none of these writes a file, runs a program, or goes to the network."""


@dataclass(frozen=True, slots=True)
class Row:
    """One command: short options without and with a value, long ones (`name=` takes a value), number of operands."""

    flags: str = ""
    valued: str = ""
    longs: str = ""
    operands: int | None = None
    operand: str = ""
    """A regular expression for each operand."""


GUARDED: Mapping[str, Row] = {
    "sort": Row(
        "bdfghiMnRrVcCmsuz",
        "ktS",
        "reverse numeric-sort unique key= field-separator= human-numeric-sort version-sort general-numeric-sort "
        "ignore-case stable zero-terminated check month-sort random-sort parallel= buffer-size= dictionary-order "
        "ignore-leading-blanks help version",
    ),
    "uniq": Row(
        "cdDiuz",
        "fsw",
        "count repeated unique ignore-case skip-fields= skip-chars= check-chars= all-repeated= help version",
        1,
    ),
    "tree": Row(
        "adfliasphugDFQNqrtcUvxCJXn", "LPI", "noreport dirsfirst gitignore charset= filelimit= prune du si help version"
    ),
    "date": Row(
        "uRI", "dr", "date= utc universal iso-8601= rfc-3339= rfc-email reference= help version", None, r"\+.*"
    ),
    "hostname": Row("sfidIA", "", "short fqdn domain ip-address all-ip-addresses", 0),
    "umask": Row("S", "", "", 0),
    "jobs": Row("lnprs", "", "", 0),
    "wait": Row("", "", "", 0),
    "file": Row(
        "bhikLNnprsvz0",
        "Fef",
        "brief mime mime-type mime-encoding dereference separator= exclude= files-from= print0 version help",
    ),
    "pgrep": Row("lafnoxcviw", "uUPgts", "list-name list-full full newest oldest exact count inverse ignore-case"),
    "shuf": Row("ezr", "nik", "head-count= input-range= echo repeat zero-terminated random-source="),
    "lsof": Row("abhlnNoOPRtUvV", "cdgipu"),
    "exit": Row(operands=1, operand=r"[0-9]{1,3}"),
    "return": Row(operands=1, operand=r"[0-9]{1,3}"),
    "break": Row(operands=1, operand=r"[0-9]"),
    "continue": Row(operands=1, operand=r"[0-9]"),
    "shift": Row(operands=1, operand=r"[0-9]"),
    "zipinfo": Row("12smlvhMtTzZC"),
    "ss": Row("tulnapsx4"),
    "netstat": Row("tulnapsxr"),
    "tput": Row(operands=1, operand=r"cols|lines|colors"),
}

REFUSED: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "rg": ("", ("pre", "pre-glob", "hostname-bin", "search-zip")),
    "fd": ("xX", ("exec", "exec-batch")),
    "fdfind": ("xX", ("exec", "exec-batch")),
    "yq": ("is", ("inplace", "in-place", "split-exp", "split-exp-file", "security-enable-system-operator")),
}
"""Short letters and long names that make a reading command run or write something."""

EXACT: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "xxd": (
        names("-p -ps -plain -b -i -u -e -E -a"),
        names("-c -cols -g -l -len -s -seek -o"),
    ),
}
"""Commands whose long options have one dash: those without and those with a value; one operand at most."""

VERSIONS: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(names("bash clang cmake g++ gcc cc git awk gawk sed tar uv ruff ruby"), frozenset(("--version",))),
    **dict.fromkeys(("python", "python3", "pip", "pip3", "jq", "rg"), frozenset(("--version", "-V"))),
    **dict.fromkeys(("node", "npm", "make", "perl"), frozenset(("--version", "-v"))),
    "go": frozenset(("version",)),
    "openssl": frozenset(("version",)),
    "java": frozenset(("-version", "--version")),
}
"""Programs that can do anything, but not with just one of these words."""

SAFE_NAMES = names(
    "LC_ALL LC_CTYPE LC_COLLATE LC_NUMERIC LC_TIME LC_MESSAGES LANG LANGUAGE TZ COLUMNS LINES NO_COLOR CLICOLOR "
    "FORCE_COLOR CI TERM"
)
"""Variables that may be set for a command: they change how it speaks, not what it does."""

ORDINARY: Mapping[str, str] = {
    "mkdir": r"-[pv]+|--parents|--verbose",
    "touch": r"-[acm]+",
    "cp": r"-[rRapvnu]+|--recursive|--archive|--verbose|--no-clobber",
    "mv": r"-[vn]+|--verbose|--no-clobber",
    "tee": r"-a|--append",
    "pytest": r"-[qvxsl]+|-r[A-Za-z]|--lf|--ff|--sw|--tb=[a-z]+|--maxfail=[0-9]+|--durations=[0-9]+|-[kmn]|--co",
    "ruff check": r"--fix|--select(?:=[A-Z0-9,]+)?|--diff|-q",
    "ruff format": r"--check|--diff|-q",
    "mypy": r"--strict|--pretty|--show-error-codes",
    "black": r"--check|--diff|-q|--quiet",
    "flake8": r"--statistics|--count",
    "npm test": r"--silent|-s",
    "npm run": r"--silent|-s",
    "yarn test": r"--silent",
    "pnpm test": r"--silent",
    "cargo test": r"-q|--quiet|--all|--workspace|--release|--lib",
    "cargo build": r"-q|--quiet|--all|--workspace|--release",
    "cargo check": r"-q|--quiet|--all|--workspace",
    "cargo fmt": r"--check|--all",
    "go test": r"-v|-run|-race|-short|-count=[0-9]+",
    "go build": r"-v|-race",
    "go vet": r"",
    "git add": r"-[AuvN]+|--all|--update|--verbose",
    "git commit": r"-[amqv]+|--message(?:=.*)?|--all|--quiet|--allow-empty",
    "git switch": r"-c|--create|-",
    "git mv": r"-[vk]+",
    "python -m pytest": r"-[qvxsl]+|-r[A-Za-z]|--lf|--ff|--tb=[a-z]+|--maxfail=[0-9]+|-[km]",
    "python3 -m pytest": r"-[qvxsl]+|-r[A-Za-z]|--lf|--ff|--tb=[a-z]+|--maxfail=[0-9]+|-[km]",
}
"""Known daily work that writes inside work/: its first words, and the options with which it is that."""

DECODERS = names("base64 base32 basenc xxd rev tr od openssl")
"""What can turn harmless-looking text into something else; beside variables and xargs it is asked about."""
