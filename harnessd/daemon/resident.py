"""One home at work: what all its sessions share, and how a run of it is prepared, judged and run."""

import os
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import anyio

from harnessd.daemon.config import Settings
from harnessd.errors import HistoryError
from harnessd.facts.event import McpFailed
from harnessd.facts.message import JsonObject, UserMessage, text_of
from harnessd.facts.run import Approval, Decision, LayerAnswer, Mode, Question, Trigger
from harnessd.facts.state import ActiveRun
from harnessd.home.change import Change, PutFile
from harnessd.home.definition import Definition
from harnessd.home.door import Author, Cause, Committed, Conflicted, Door, NeedsApproval, Refused
from harnessd.home.executables import executable_hash, programs
from harnessd.home.layout import TOOLS, Home
from harnessd.home.pin import Pinned, Pinner
from harnessd.home.portrait import Portrait, PortraitServer, portrait
from harnessd.home.reader import DefinitionReader
from harnessd.home.rules_text import NoPlace, with_allow_rule
from harnessd.home.secrets import find_secrets
from harnessd.home.subagents import BUILT_IN_TOOLS
from harnessd.home.tiers import Tier, Tiers, tier_of
from harnessd.home.tree import blob_id
from harnessd.home.trust import TrustStore
from harnessd.hooks.chain import Chain
from harnessd.hooks.context import RunContext, SessionRecord
from harnessd.hooks.tool_result_eviction import evict
from harnessd.journal.bus import Subscription
from harnessd.journal.stamp import from_now
from harnessd.loop.endings import Ending, Waiting, nudged, seconds_left
from harnessd.loop.run import run
from harnessd.loop.turn import Turns
from harnessd.permissions.call import GateCall, Target, ToolKind, changed_targets
from harnessd.permissions.classifier import ClassifierInput
from harnessd.permissions.gate import GateContext, child_modes, decide
from harnessd.permissions.hooks import Hook
from harnessd.permissions.paths import Roots, find_roots
from harnessd.permissions.rules import rule_for
from harnessd.tools.arguments import Invalid, canonical
from harnessd.tools.artifact_produced import keep_produced
from harnessd.tools.elicitation import check_answer
from harnessd.tools.jobs import Jobs
from harnessd.tools.pipeline import Ready, TurnScope, run_calls
from harnessd.tools.pipeline import Waiting as CallsWaiting
from harnessd.tools.seen import Seen
from harnessd.tools.servers import Servers
from harnessd.tools.tool import Outcome, Tool, ToolContext

REQUESTS, LONGEST_REQUEST = 4, 20_000
"""How many of the user's last messages, and how many characters of them, a classifier is shown."""

ONCE = "mend or commit the file first, or allow the call once"
Classify = Callable[[RunContext, str, ClassifierInput], Awaitable[LayerAnswer]]
"""Asks the classifier for a run about the tool call of that id."""
Look = Callable[[RunContext, Pinned, Definition, tuple[Tool, ...]], Awaitable[None]]
"""Fills a context from the home as it was read, like the hooks before a run, but connects, starts and asks nothing.

The tools given stand for those of servers."""

OPERATOR = Author(kind="operator", name="operator", email="operator@localhost")


@dataclass(frozen=True)
class Resident:
    """The parts of one home, made once in a process by `assemble`; nothing in here belongs to a session."""

    home: Home
    settings: Settings
    pinner: Pinner
    reader: DefinitionReader
    door: Door
    tiers: Tiers
    servers: Servers
    jobs: Jobs
    trust: TrustStore
    chain: Chain
    turns: Turns
    hooks: tuple[Hook, ...]
    classify: Classify
    look: Look
    every_tool: Callable[[RunContext], tuple[Tool, ...]]
    secrets: tuple[str, ...]
    redact: Callable[[bytes], bytes]

    def read(self, user_id: str | None = None) -> tuple[Pinned, Definition]:
        """The home as it is now. Blocks."""
        pinned = self.pinner.pin()
        return pinned, self.reader.read(pinned, user_id)

    def trusted(self, definition: Definition) -> bool:
        """Whether the home may start the processes that `definition` declares."""
        return self.trust.is_trusted(self.home, executable_hash(definition))

    def prepare(self, ledger: SessionRecord, run_id: str, trigger: Trigger, seen: Seen) -> RunContext:
        """A fresh working set for a run of the session that knows what is `seen`; the hooks fill it."""
        return RunContext(home=self.home, ledger=ledger, run_id=run_id, trigger=trigger, seen=seen)

    async def run(self, context: RunContext) -> Ending | Waiting:
        """Runs it, or goes on with it."""
        return await run(context, self.turns)

    async def run_calls(self, context: RunContext) -> tuple[str, ...] | None:
        """Runs the open calls of the turn by the rules that stand in the home at this moment."""
        await self.chain.run_before_model(context)
        roots = await self.roots_of(context)
        context.request = None  # a message may have come in between
        active, definition = context.run, context.home_now
        last = context.state.messages[-1] if len(context.state.messages) else None
        scope = TurnScope(context.run_id, active.turn_id or "", last.id if last else "")

        async def ask_gate(call: GateCall) -> Decision:
            return await self.judge(context, roots, call)

        async def after(ready: Ready, tool_context: ToolContext, outcome: Outcome) -> Outcome:
            if outcome.wrote is not None:
                path, blob = outcome.wrote
                context.own_writes[path] = blob
                if tool_context.approved:
                    await anyio.to_thread.run_sync(self._keep_trust, context.home_now)
            outcome = await keep_produced(tool_context, outcome)
            call = ready.call.model_copy(update={"arguments": ready.arguments, "effect": ready.effect})
            return nudged(context.run, await self.chain.run_after_tool(context, call, outcome))

        done = await run_calls(
            context.ledger,
            scope,
            active.calls,
            toolbox=context.toolbox,
            decide=ask_gate,
            context_for=lambda call: self.tool_context(context, roots, call.call.id),
            after=(after,),
            results=definition.tools.results,
            evict=lambda call_id, text: evict(context, call_id, self.redact(text.encode("utf-8", "replace"))),
            stopping=lambda: context.run.status == "stopping",
            expires_at=lambda: _expiry(context),
            answer_to=None if context.news is None else partial(_answered, context, context.news),
            may_ask=lambda: "dontAsk" not in self._gate_context(context).modes,
        )
        return done.approvals if isinstance(done, CallsWaiting) else None

    async def judge(self, context: RunContext, roots: Roots, call: GateCall) -> Decision:
        """What the gate decides about a call of the run, by what holds at this moment."""
        known = self._gate_context(context)
        return await decide(
            call,
            replace(
                known,
                request=_request(context) if "auto" in known.modes else "",
                classifier=partial(self.classify, context, call.tool_call_id),
                programs=programs(context.home_now, roots.home) if changed_targets(call) else (),
            ),
        )

    def rule_for(self, approval: Approval) -> str | None:
        """The narrowest allow rule that would let the same call through; None if no rule may lift this ask."""
        if any(answer.safety and answer.verdict == "ask" for answer in approval.policy.answers):
            return None
        name, path = approval.tool_name, approval.arguments.get("path")
        kind: ToolKind = "mcp" if name.startswith("mcp__") else "builtin" if name in BUILT_IN_TOOLS else "script"
        targets: tuple[Target, ...] = ()
        if isinstance(path, str) and kind == "builtin":
            relative = os.path.normpath(path)
            targets = (Target(path=str(self.home.path / relative), access="write", within="home", home_path=relative),)
        return rule_for(GateCall(tool=name, own_name=name, kind=kind, arguments=approval.arguments, targets=targets))

    def check_answer(self, question: Question, arguments: JsonObject | None) -> JsonObject | Invalid | None:
        """A person's answer to a server's question, if it fits and may leave; `Invalid` says what is wrong with it."""
        answer = check_answer(question, arguments)
        if isinstance(answer, Invalid) or answer is None:
            return answer
        for name, value in answer.items():
            found = find_secrets(value if isinstance(value, str) else canonical({name: value}), self.secrets)
            if found:
                said = f"it holds what looks like a secret ({found[0].kind}), and a form is no place for one"
                return Invalid(f"{name}: {said}; give it to the server in its own configuration", line=0)
        return answer

    def portrait(self) -> Portrait:
        """What one would say of the agent at a glance. Blocks."""
        pinned, definition = self.read()
        pin = pinned.pin
        shown = portrait(
            self.home.name, definition, pin=pinned.tree, head=pin.head, dirty=pin.dirty, last_good=pin.last_good
        )
        return shown.model_copy(update={"servers": tuple(map(self._as_it_is, shown.servers))})

    def _as_it_is(self, server: PortraitServer) -> PortraitServer:
        """A declared server with how it is in this process."""
        told = self.servers.status().get(server.name)
        if told is None:
            return server
        if isinstance(told, McpFailed):
            return server.model_copy(update={"status": "failed", "failure": told.failure.message})
        held = dict(self.servers.unaccepted()).get(server.name)
        return server.model_copy(update={"status": "connected", "held": held.held if held else ()})

    async def reload(self) -> Portrait:
        """Reads the home anew now; servers that failed are tried again at once, the others say what they offer."""
        self.servers.reconnect()
        return await anyio.to_thread.run_sync(self.portrait)

    async def allow_always(self, rule: str) -> None:
        """Writes an allow rule into tools.json, as the operator. Raises `HistoryError` if the home refuses."""
        await anyio.to_thread.run_sync(self._allow_always, rule)

    def _allow_always(self, rule: str) -> None:
        path = self.home.path / TOOLS
        _, before = self.read()
        raw = path.read_bytes() if path.exists() else None
        new = with_allow_rule(b"{}\n" if raw is None else raw, rule)
        if isinstance(new, NoPlace):
            raise HistoryError(f"the rule {rule} can't be written: {new.message}", where=str(path), hint=ONCE)
        change = Change(TOOLS, PutFile(new), None if raw is None else blob_id(raw))
        answer = self.door.commit_now(change, OPERATOR, Cause(origin="user"), "ask")
        match answer:
            case Committed() | Refused(code="no-change"):
                self._keep_trust(before)
            case Refused(message=message) | Conflicted(message=message):
                raise HistoryError(f"the rule {rule} can't be written: {message}", where=str(path), hint=ONCE)
            case NeedsApproval():
                raise HistoryError(f"the rule {rule} can't be written: it is locked", where=str(path), hint=ONCE)

    def _keep_trust(self, before: Definition) -> None:
        """What a person approved needs no second look: a home that was trusted stays so. Blocks."""
        if self.trusted(before):
            _, now = self.read()
            self.trust.trust(self.home, executable_hash(now))

    async def roots_of(self, context: RunContext) -> Roots:
        """Where the agent may go; looked up once a run, and again when the settings changed."""
        settings = context.home_now.settings
        if context.roots is None or context.roots[0] is not settings:
            context.roots = (settings, await anyio.to_thread.run_sync(self._roots, context))
        return context.roots[1]

    def _roots(self, context: RunContext) -> Roots:
        state, settings = context.state, context.home_now.settings

        def tier(path: str) -> Tier:
            return tier_of(path, state.user_id, tiers=self.tiers)

        return find_roots(
            self.home.path,
            tier,
            workdirs=settings.workdirs,
            hidden=(self.settings.workspaces, self.settings.state_dir),
            visible=(
                self.home.evicted(state.agent_id, state.session_id),
                self.home.artifacts(state.agent_id, state.session_id),
            ),
            user_id=state.user_id,
        )

    def _gate_context(self, context: RunContext) -> GateContext:
        mode, ceiling = context.asked_mode, self.settings.ceiling.mode
        parents: tuple[Mode, ...] = ()
        allowed = context.state.toolkit.allowed
        if context.above is not None:
            over = self._gate_context(context.above)
            mode, ceiling, parents = child_modes(over, mode)
            allowed = (*over.session_allowed, *allowed)
        return GateContext(
            mode=mode,
            ceiling=ceiling,
            parents=parents,
            rules=context.rules,
            session_allowed=allowed,
            known_tools=context.toolbox.offered_as,
            hooks=self.hooks,
            secret_values=self.secrets,
            secret_kinds=lambda text: [found.kind for found in find_secrets(text)],
        )

    def tool_context(self, context: RunContext, roots: Roots, call_id: str) -> ToolContext:
        """What a call is given. Without a run, as when a decision is explained, it names none."""
        state, active = context.state, context.state.active_run or ActiveRun()
        left = seconds_left(active, context.turn_seconds) if context.state.active_run is not None else None
        return ToolContext(
            home=self.home,
            session_id=state.session_id,
            agent_id=state.agent_id,
            run_id=context.run_id,
            turn_id=active.turn_id or "",
            call_id=call_id,
            author=Author(kind="agent", name=self.home.name, email=f"{self.home.name}@harnessd"),
            cause=Cause(
                agent=state.agent_id,
                session=state.session_id,
                run=context.run_id,
                call=call_id,
                pin=active.pin,
                model=active.answered_by or context.model,
                origin=state.context_origin,
            ),
            door=self.door,
            roots=roots,
            definition=context.home_now,
            seen=context.seen,
            user_id=state.user_id,
            origin=state.context_origin,
            found=state.toolkit.found,
            artifacts=state.artifact_refs,
            deadline=None if left is None else time.monotonic() + left,
        )


async def _answered(context: RunContext, subscribe: Callable[[int], Subscription], approval_id: str) -> None:
    """Waits until a person has answered while a call is held; the run's time stands still."""
    with context.standing_still(), closing(subscribe(context.state.seq)) as news:
        context.stir()
        if _pending(context, approval_id):
            async for _ in news:
                context.stir()
                if not _pending(context, approval_id):
                    break


def _pending(context: RunContext, approval_id: str) -> bool:
    return any(one.id == approval_id for one in context.state.pending_approvals)


def _expiry(context: RunContext) -> str | None:
    """When an approval that is asked for now runs out."""
    seconds = context.home_now.settings.approval_expiry
    return None if seconds is None else from_now(seconds)


def _request(context: RunContext) -> str:
    """The user's own words that the run is about: the last inputs in the context, so that "yes, do that" means more."""
    if context.above is not None:
        return _request(context.above)  # the task is the parent agent's text, not the user's
    if context.request is None:
        messages = context.state.messages
        latest = (messages[at] for at in range(len(messages) - 1, -1, -1))
        inputs = (m for m in latest if isinstance(m, UserMessage) and m.kind == "input" and m.origin == "user")
        words = [text_of(one) for one in islice(inputs, REQUESTS)]
        context.request = "\n\n".join(reversed(words))[-LONGEST_REQUEST:]
    return context.request
