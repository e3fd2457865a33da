"""Which values of a server's declaration are secrets that stand there as they are, and not as `${NAME}`?"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from harnessd.home.secrets import find_secrets
from harnessd.home.tools_file import McpServer, StdioServer

_VARIABLE = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*(?::-([^}]*))?\}")
_SECRET_WORDS = {
    "auth", "authorization", "apikey", "bearer", "cookie", "credential", "credentials", "key", "passwd", "password",
    "passphrase", "pat", "pwd", "secret", "token",
}  # fmt: skip
_NO_SECRET = re.compile(
    r"(?:[./~$].*|[a-z][a-z0-9+.-]*://.*|-?[\d.,]*|true|false|none|null|yes|no|on|off)", re.IGNORECASE
)
_SCHEME = re.compile(r"(?:Bearer|Basic|Token|ApiKey)\s+", re.IGNORECASE)
_SHORTEST = 8
"""Characters of the shortest value that is taken for a secret by the name it stands under."""


@dataclass(frozen=True, slots=True)
class LiteralSecret:
    """Where it stands in the server's declaration such as `env`, `API_KEY`, and why it is taken for one."""

    place: tuple[str | int, ...]
    why: str


def literal_secrets(server: McpServer) -> tuple[LiteralSecret, ...]:
    """Every value that a person would not want to find in git: by its shape, or by the name it stands under."""
    found: dict[tuple[str | int, ...], LiteralSecret] = {}
    for place, name, value in _values(server):
        why = _why(name, value)
        if why and place not in found:
            found[place] = LiteralSecret(place, why)
    return tuple(found.values())


def _values(server: McpServer) -> Iterator[tuple[tuple[str | int, ...], str, str]]:
    """Place, name and text of each value; an argument's name is the option before it."""
    if not isinstance(server, StdioServer):
        for header, value in server.headers.items():
            yield ("headers", header), header, value
        yield ("url",), "", server.url
        for name, value in _query(server.url):
            yield ("url",), name, value
        return
    for variable, value in server.env.items():
        yield ("env", variable), variable, value
    option = ""
    for at, word in enumerate(server.args):
        name, equals, value = word.partition("=")
        if equals and name.startswith("-"):
            yield ("args", at), name, value
        else:
            yield ("args", at), option, word
        option = word if word.startswith("-") and not equals else ""


def _query(url: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(urlsplit(url).query)
    except ValueError:
        return []  # no URL at all, which is told when it is connected


def _why(name: str, value: str) -> str:
    text = _VARIABLE.sub(lambda match: match[1] or "", value)
    kinds = find_secrets(text)
    if kinds:
        return f"it looks like a secret ({kinds[0].kind})"
    bare = _SCHEME.sub("", text, count=1).strip()
    if _is_secret_name(name) and len(bare) >= _SHORTEST and " " not in bare and not _NO_SECRET.fullmatch(bare):
        return f"a value of {name.strip('-')} is a secret"
    return "it looks like a random key" if _is_random(bare) else ""


def _is_secret_name(name: str) -> bool:
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return "authorization" in name.lower() or (bool(words) and words[-1].lower() in _SECRET_WORDS)


def _is_random(text: str) -> bool:
    """A long run of letters of both cases and digits, or of hexadecimal digits, that no person would think up."""
    if re.fullmatch(r"[0-9a-f]{32,}|[0-9A-F]{32,}", text):
        return True
    shapes = (r"[a-z]", r"[A-Z]", r"\d")
    return bool(re.fullmatch(r"[A-Za-z0-9_+=-]{24,}", text)) and all(len(re.findall(one, text)) >= 3 for one in shapes)
