"""Which server does a call of `connect` declare, must a person be asked, and what are they shown?"""

import json
from collections.abc import Iterator

from pydantic import ValidationError

from harnessd.facts.message import JsonObject
from harnessd.facts.misfit import misfit
from harnessd.home.expand import variables
from harnessd.home.hidden import find_hidden
from harnessd.home.literal_secrets import literal_secrets
from harnessd.home.tools_file import RemoteServer, StdioServer
from harnessd.tools.mcp import Server
from harnessd.tools.tool import Outcome, failed

_FIELDS = ("command", "args", "env", "url", "headers", "type", "tools", "cwd")


def declaration_of(arguments: JsonObject) -> JsonObject:
    """The server as it would stand in tools.json."""
    return {key: arguments[key] for key in _FIELDS if key in arguments}


def server_of(arguments: JsonObject) -> Server | Outcome:
    """The server that the call declares, or why it is none."""
    given = declaration_of(arguments)
    if ("command" in given) == ("url" in given):
        return failed("bad_server", "Give either `url` or `command` with `args`. Nothing was done.")
    stray = [key for key in (("headers", "type") if "command" in given else ("args", "env", "cwd")) if key in given]
    if stray:
        kind = "a command" if "command" in given else "a URL"
        return failed("bad_server", f"`{stray[0]}` is not for {kind}. Nothing was done.")
    if "url" in given and not str(given["url"]).lower().startswith(("http://", "https://", "${")):
        return failed("bad_server", "A `url` begins with https:// or http://. Nothing was done.")
    if any(map(find_hidden, _texts(given))):
        return failed("hidden_characters", "The server holds characters that nobody can see. Nothing was done.")
    try:
        server: Server = StdioServer(**given) if "command" in given else RemoteServer(**given)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        return failed("bad_server", f"`{'.'.join(map(str, wrong['loc']))}`: {misfit(wrong['msg'])}. Nothing was done.")
    for found in literal_secrets(server):
        place = ".".join(map(str, found.place))
        way = "write ${NAME}, whose value the operator keeps in the secret store"
        return failed("secret", f"`{place}`: {found.why}; {way}. Nothing was done.")
    return server


def needs_a_person(arguments: JsonObject) -> bool:
    """Whether the trial would start a program or send a value of the operator's; what is no server is nobody's."""
    return "command" in arguments or any("${" in text for text in _texts(arguments))


def would_run(server: Server) -> str:
    """What a person is shown before a trial: each word of the command, and what would be sent."""
    if isinstance(server, StdioServer):
        lines = [f"would run {' '.join(map(_quoted, (server.command, *server.args)))}"]
        lines += ["on this machine, as you, with the network, for one trial"]
        lines += [f"in the folder {_quoted(server.cwd)}"] if server.cwd else []
        lines += [f"with {_quoted(name)} set to {_quoted(value)}" for name, value in server.env.items()]
    else:
        lines = [f"would connect to {_quoted(server.url)}"]
        lines += [f"with the header {_quoted(name)}: {_quoted(value)}" for name, value in server.headers.items()]
    names = ", ".join(f"${{{name}}}" for name in variables(server))
    return "\n".join([*lines, *([f"which is given the values of {names}"] if names else [])])


def _quoted(text: str) -> str:
    """One line that can't be taken for another, whatever is in it."""
    return json.dumps(text, ensure_ascii=False)


def _texts(value: object) -> Iterator[str]:
    """Every text in a declaration, keys too; its schema keeps it flat."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
