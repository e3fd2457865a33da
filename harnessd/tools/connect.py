"""How the agent looks at MCP servers, tries one, and asks to keep it: `connect`.

What starts a program, sends a value of the operator's or changes tools.json is for a person to allow, in every mode:
such a call names tools.json as its target, with the tier `ask`.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

import anyio.to_thread

from harnessd.facts.event import McpConnected, McpFailed
from harnessd.facts.message import JsonObject
from harnessd.home.change import Change, PutFile, smallest_edit
from harnessd.home.definition import Definition
from harnessd.home.executables import needs_trust
from harnessd.home.expand import MissingVariable, expand
from harnessd.home.hidden import strip_hidden
from harnessd.home.layout import TOOLS
from harnessd.home.rules_text import NoPlace
from harnessd.home.servers_text import with_server, without_server
from harnessd.home.tools_file import SIZE_LIMIT, StdioServer
from harnessd.home.tree import blob_id
from harnessd.permissions.call import Target
from harnessd.permissions.paths import resolve_target
from harnessd.tools.connect_schema import DESCRIPTION, SCHEMA
from harnessd.tools.connect_server import declaration_of, needs_a_person, server_of, would_run
from harnessd.tools.connection import START_SECONDS
from harnessd.tools.doorway import commit_change, preview_change
from harnessd.tools.mcp import Server
from harnessd.tools.rooted import Unusable, read_file
from harnessd.tools.servers import Servers
from harnessd.tools.tool import Effect, Outcome, Preview, Tool, ToolContext, failed, succeeded

TOOLS_SHOWN = 100
LINE_SHOWN = 200
_OURS = frozenset({"unset_variable", "cannot_start", "slow", "untrusted"})
"""Failures whose words are the harness's own, and not the server's."""


@dataclass(frozen=True)
class Connect:
    """`connect` for one home.

    `servers` are its connections, `throwaway` opens some of their own for a trial. `lookup` gives the value of a
    `${VARIABLE}`, `redact` takes such values out of a text again. `trusted` says whether this home may start programs.
    """

    servers: Servers
    throwaway: Callable[[], AbstractAsyncContextManager[Servers]]
    lookup: Callable[[str], str | None]
    trusted: Callable[[Definition], bool]
    redact: Callable[[bytes], bytes] = lambda text: text

    def tool(self) -> Tool:
        """The tool. It counts as remote, since a trial sends its arguments away."""
        return Tool(
            name="connect",
            own_name="connect",
            kind="builtin",
            description=DESCRIPTION,
            input_schema=SCHEMA,
            run=self._run,
            effect_for=_effect,
            origin="remote",
            timeout=120,
            targets=self._targets,
            preview=self._preview,
        )

    async def _run(self, context: ToolContext, arguments: JsonObject) -> Outcome:
        match arguments["action"]:
            case "list":
                return self._list(context)
            case "try":
                return await self._try(context, arguments)
            case "attach":
                return await self._attach(context, arguments)
            case _:
                return await self._put(context, await anyio.to_thread.run_sync(_without, context, arguments))

    def _targets(self, context: ToolContext, arguments: JsonObject) -> tuple[Target, ...]:
        """tools.json, where a person has to be asked; what the operator's tiers say can only be stricter."""
        if arguments["action"] == "list" or (arguments["action"] == "try" and not needs_a_person(arguments)):
            return ()
        target = resolve_target(context.roots, TOOLS, "write")
        return (target if target.tier == "locked" else target.model_copy(update={"tier": "ask"}),)

    def _preview(self, context: ToolContext, arguments: JsonObject) -> Preview | Outcome | None:
        match arguments["action"]:
            case "list":
                return None
            case "try":
                server = self._tryable(context, arguments)
                return server if isinstance(server, Outcome) else Preview(would_run(server), None)
            case "attach":
                change = _with(context, arguments)
            case _:
                change = _without(context, arguments)
        return change if isinstance(change, Outcome) else preview_change(context, change)

    # --- list

    def _list(self, context: ToolContext) -> Outcome:
        declared, now, notes = context.definition.tools.mcp_servers, self.servers.status(), self.servers.notes()
        held = {name: offered.held for name, offered in self.servers.unaccepted() if offered.held}
        lines, origin = [], "agent"
        for name, server in declared.items():
            state = now.get(name)
            if not server.enabled:
                told = "switched off in tools.json"
            elif isinstance(state, McpConnected):
                told = f"connected, protocol {state.protocol}, {_count(len(state.tools))}"
            elif isinstance(state, McpFailed):
                told = f"not usable ({state.failure.kind}): {state.failure.message}"
                origin = origin if state.failure.kind in _OURS or server.trust == "local" else "remote"
            elif needs_trust(server) and not self.trusted(context.definition):
                told = "not trusted: this home came from elsewhere; the operator has to run `harnessd trust`"
            else:
                told = "not connected yet; it is when the next run begins"
            lines.append(f"- {name} ({_target(server)}): {told}")
            about = [note for of, note in notes if of == name]
            origin = "remote" if about and server.trust != "local" else origin
            lines += [f"  {note}" for note in about]
            if name in held:
                lines.append(f"  {_count(len(held[name]))} held back: described anew, for the operator to look at")
        text = "\n".join(lines) or "No server is declared in tools.json. `attach` adds one, `try` looks at one first."
        return succeeded(self._clean(text), origin="remote" if origin == "remote" else "agent")

    # --- try

    async def _try(self, context: ToolContext, arguments: JsonObject) -> Outcome:
        if needs_a_person(arguments) and not context.approved:
            return failed("needs_approval", "Nothing was run: a person has to allow this.")
        server = await anyio.to_thread.run_sync(self._tryable, context, arguments)
        if isinstance(server, Outcome):
            return server
        filled = expand(server, self.lookup)
        if isinstance(filled, MissingVariable):
            return failed("unset_variable", f"Nothing was tried: {filled}. The operator sets it in the secret store.")
        name = str(arguments.get("name") or "server")
        told = await self._trial(name, filled)
        text = f"{told.text}\nNothing was kept; `attach` would add it to tools.json."
        if not told.connected:
            return failed("not_connected", f"{told.text} Nothing was kept.", origin="remote")
        return succeeded(text, changed=True, origin="remote")

    def _tryable(self, context: ToolContext, arguments: JsonObject) -> Server | Outcome:
        """The server as declared by the call, or why it can't be tried."""
        server = server_of(arguments)
        if not isinstance(server, Outcome) and needs_trust(server) and not self.trusted(context.definition):
            message = "This home came from elsewhere and is not trusted, so nothing is started or sent; the operator"
            return failed("untrusted", f"{message} has to look at it and run `harnessd trust`.")
        return server

    async def _trial(self, name: str, server: Server) -> "_Told":
        """Connects for a moment; what a person or the model should know of it, without secrets."""
        async with self.throwaway() as servers:
            servers.configure({name: server})
            await servers.ready(START_SECONDS)
            state = servers.status()[name]
            tools, notes = servers.tools(), [note for _, note in servers.notes()]
        if isinstance(state, McpFailed):
            return _Told(False, self._clean(f"{name} can't be used ({state.failure.kind}): {state.failure.message}."))
        lines = [f"{name} answers: protocol {state.protocol}, {state.duration_ms} ms, {_count(len(tools))}."]
        lines += [f"- {tool.own_name}: {_first_line(tool.description)}" for tool in tools[:TOOLS_SHOWN]]
        lines += [f"… and {len(tools) - TOOLS_SHOWN} more"] if len(tools) > TOOLS_SHOWN else []
        return _Told(True, self._clean("\n".join((*lines, *notes))))

    # --- attach, detach

    async def _attach(self, context: ToolContext, arguments: JsonObject) -> Outcome:
        change = await anyio.to_thread.run_sync(_with, context, arguments)
        server = server_of(arguments)
        if isinstance(change, Outcome) or isinstance(server, Outcome):
            return await self._put(context, change)
        # Looked at before the commit: a result that comes too late must not hide that the file changed.
        told = await self._first_look(context, str(arguments["name"]), server)
        done = await self._put(context, change)
        if done.status != "ok":
            return done
        only = context.definition.tools.offer_only_allowed
        note = "\nIts servers are a list, so tools.json offers only those tools that `allow` names." if only else ""
        parts = succeeded(f"{text_of_outcome(done)}\n{told.text}{note}").parts
        return replace(done, parts=parts, origin="remote" if told.connected else done.origin)

    async def _first_look(self, context: ToolContext, name: str, server: Server) -> "_Told":
        if needs_trust(server) and not self.trusted(context.definition):
            return _Told(False, "It stays out until the operator runs `harnessd trust`: this home came from elsewhere.")
        filled = expand(server, self.lookup)
        if isinstance(filled, MissingVariable):
            return _Told(False, f"It can't be used yet: {filled}. The operator sets it in the secret store.")
        if not context.approved:
            return _Told(False, "")
        told = await self._trial(name, filled)
        return replace(told, text=f"{told.text}\nThey can be called from the next turn on.") if told.connected else told

    async def _put(self, context: ToolContext, change: Change | Outcome) -> Outcome:
        if isinstance(change, Outcome):
            return change
        if not context.approved:
            return failed("needs_approval", "Nothing was changed: tools.json changes only with a person's approval.")
        if change.base != context.base:
            return failed("stale", "tools.json changed since this was approved; ask again. Nothing was changed.")
        return await commit_change(context, change)

    def _clean(self, text: str) -> str:
        return strip_hidden(self.redact(text.encode(errors="replace")).decode(errors="replace"))


@dataclass(frozen=True, slots=True)
class _Told:
    connected: bool
    text: str


def text_of_outcome(outcome: Outcome) -> str:
    """The text of a result."""
    return "".join(getattr(part, "text", "") for part in outcome.parts)


def _effect(arguments: JsonObject) -> Effect:
    return "read" if arguments.get("action") == "list" else "write"


def _with(context: ToolContext, arguments: JsonObject) -> Change | Outcome:
    """The change of tools.json that attaches the server. Blocks."""
    server = server_of(arguments)
    if isinstance(server, Outcome):
        return server
    if "name" not in arguments:
        return failed("bad_server", "`attach` needs a `name` for the server. Nothing was changed.")
    name, raw = str(arguments["name"]), _tools_json(context)
    if isinstance(raw, Outcome):
        return raw
    return _changed(raw, with_server(raw or b"", name, declaration_of(arguments)))


def _without(context: ToolContext, arguments: JsonObject) -> Change | Outcome:
    """The change of tools.json that takes the server out. Blocks."""
    if "name" not in arguments:
        return failed("bad_server", "`detach` needs the `name` of the server. Nothing was changed.")
    raw = _tools_json(context)
    if isinstance(raw, Outcome):
        return raw
    return _changed(raw, without_server(raw or b"", str(arguments["name"])))


def _tools_json(context: ToolContext) -> bytes | Outcome | None:
    (target,) = context.targets
    try:
        return read_file(target.path, at_most=SIZE_LIMIT)
    except Unusable as error:
        return failed("unusable", str(error))


def _changed(raw: bytes | None, new: bytes | NoPlace) -> Change | Outcome:
    if isinstance(new, NoPlace):
        return failed("refused", f"Nothing was changed. tools.json: {new.message}.")
    return Change(TOOLS, PutFile(new) if not raw else smallest_edit(raw, new), None if raw is None else blob_id(raw))


def _target(server: Server) -> str:
    shown = " ".join((server.command, *server.args)) if isinstance(server, StdioServer) else server.url
    return shown if len(shown) <= LINE_SHOWN else f"{shown[:LINE_SHOWN]} …"


def _count(tools: int) -> str:
    return "1 tool" if tools == 1 else f"{tools:,} tools"


def _first_line(description: str) -> str:
    line = next((line.strip() for line in description.splitlines() if line.strip()), "(no description)")
    return line if len(line) <= LINE_SHOWN else f"{line[:LINE_SHOWN]} …"
