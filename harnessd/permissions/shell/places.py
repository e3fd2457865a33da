"""Which places may a command that reads name without an ask, and which one that writes?"""

import re

from harnessd.permissions.shell.judged import READS, Finding, ordinary, unclear, unknown
from harnessd.permissions.shell.word import ANYTHING, Word, names

_SECRET_NAMES = re.compile(
    r"(?:\.ssh|\.gnupg|\.aws|\.azure|\.kube|\.netrc|\.pgpass|\.git-credentials|\.docker|\.npmrc|\.pypirc|\.htpasswd"
    r"|\.bash_history|\.credentials|credentials|shadow-?|gshadow-?|sudoers(?:\.d)?|id_(?:rsa|dsa|ecdsa|ed25519)[^/]*"
    r"|authorized_keys|ssh_host_[^/]*|.*\.(?:pem|pfx|p12|keystore|jks|kdbx)|\.env(?:\..*)?|docker\.sock)",
    re.IGNORECASE,
)
_OPEN_DEVICES = names("null zero full urandom random stdin stdout stderr tty fd")
_OPEN_PROC = re.compile(
    r"/proc(?:/(?:cpuinfo|meminfo|loadavg|uptime|version|mounts|filesystems|stat|vmstat|partitions|self/status|sys/.*))?/?"
)
_OPEN_ROOTS = re.compile(r"/(?:usr|lib|lib32|lib64|bin|sbin|opt|tmp|etc|var|sys|srv|mnt|data|nix)(?=/|$)")
_SECRET_FOLDERS = re.compile(
    r"/(?:etc/(?:ssh|ssl/private|sudoers\.d)|var/(?:run|spool|mail|lib/(?:docker|sss|mysql|postgresql))|sys/kernel/debug)(?=/|$)"
)
_PATH_IN = re.compile(r"(?:^|[=:,@\s])([~/][^=:,\s]*)")


def reading(word: Word) -> Finding:
    """Whether a word of a command that reads names a place that is asked about. What is no path is no matter."""
    text = word.text
    if not text or ("/" not in text and "~" not in text and ANYTHING not in text):
        return _secret_name(text)
    for path in (text, *_PATH_IN.findall(text), *_glued(text)):
        found = _read_place(path)
        if found is not READS:
            return found
    return READS


def writing(word: Word) -> Finding:
    """Whether a word of a command that writes stays inside work/."""
    text = word.text.rpartition("=")[2] if word.text.startswith("-") else word.text
    if text == "/dev/null":
        return READS
    steps = [step.casefold() for step in text.split("/")]
    if any(step.startswith(".git") for step in steps):
        return unclear(f"{word}: git would run or obey what is written there")
    if text.startswith(("/", "~")) or ".." in steps or any(step == "dev" and "tcp" in text for step in steps):
        return unclear(f"{word}: it lies outside work/, or may")
    if ANYTHING in text:
        return unknown(f"{word}: where that is shows only at the run")
    if any(step.startswith(".") and step.strip(".") for step in steps):  # `./...` is how go names all packages
        return unknown(f"{word}: programs obey files with such names")
    return ordinary(f"{word}: written inside work/") if text else unclear("it writes to no name")


def _secret_name(text: str) -> Finding:
    if any(_SECRET_NAMES.fullmatch(step) for step in re.split(r"[/=:]", text.rstrip("/"))):
        return unclear(f"{text.replace(ANYTHING, '…')}: secrets are often kept there")
    return READS


def _read_place(path: str) -> Finding:
    seen = path.replace(ANYTHING, "…")
    if (secret := _secret_name(path)) is not READS:
        return secret
    if path.startswith("~"):
        return unclear(f"{seen}: it lies in a home directory")
    if not path.startswith("/"):
        return READS
    plain = re.sub(r"/(?:\.?/)+", "/", path)
    if ".." in plain.split("/"):
        return unclear(f"{seen}: it climbs from an absolute place")
    known, _, _ = plain.partition(ANYTHING)
    folder = known if ANYTHING not in plain else known.rpartition("/")[0] or "/"
    if plain.startswith("/dev/"):
        device = plain.split("/")[2]
        return READS if device in _OPEN_DEVICES and "tcp" not in plain else unclear(f"{seen}: a device")
    if folder == "/proc" or folder.startswith("/proc/"):
        return READS if _OPEN_PROC.fullmatch(plain) else unclear(f"{seen}: it shows what processes hold")
    if _SECRET_FOLDERS.match(folder) or (ANYTHING in plain and folder in {"/etc", "/"}):
        return unclear(f"{seen}: secrets are often kept there")
    if plain in {"/", "/…"} or _OPEN_ROOTS.match(folder):
        return READS
    return unclear(f"{seen}: it lies outside the home")


def _glued(text: str) -> list[str]:
    """A path behind a short option: `-f/etc/x`."""
    return [text[at:] for at in range(2, len(text)) if text[at] in "/~"][:1] if text.startswith("-") else []
