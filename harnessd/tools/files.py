"""How the agent reads and changes files: `read`, `write` and `edit`.

Paths are looked up from the home. Definition files change through the home's one door, as commits; `work/` and
the granted folders are plain files, replaced in one step. A file that changed since the session read it is not
overwritten.
"""

import difflib
import os
import re
import stat
from dataclasses import dataclass

import anyio.to_thread

from harnessd.facts.message import JsonObject
from harnessd.home.change import Change, EditFile, PutFile
from harnessd.home.tree import blob_id
from harnessd.permissions.call import Access, Target
from harnessd.permissions.paths import resolve_target
from harnessd.tools.doorway import commit_change, preview_change
from harnessd.tools.looks import Text, describe, look
from harnessd.tools.replace import Edit, NoMatch, replace_exactly
from harnessd.tools.rooted import Entry, Unusable, list_folder, read_file, replace_file
from harnessd.tools.tool import Outcome, Preview, Tool, ToolContext, failed, succeeded

OPENED_AT_MOST = 32 * 1024 * 1024
"""Bytes of a file that `read` and `edit` open."""

SMALL = 64 * 1024
"""Bytes of a file that is read in place rather than in a thread."""

WRITTEN_AT_MOST = 8 * 1024 * 1024
LINES_SHOWN = 2000
CHARACTERS_SHOWN = 100_000
LINE_SHOWN = 4000
ENTRIES_SHOWN = 500


def file_tools() -> tuple[Tool, ...]:
    """`read`, `write` and `edit`."""
    path = {"type": "string", "minLength": 1, "description": "Path from the home, e.g. work/notes.txt"}
    read = Tool(
        name="read",
        own_name="read",
        kind="builtin",
        description=(
            "Read a text file, or list a folder. Paths start at the home: skills/tea/SKILL.md, work/x.txt. "
            "Long files come in parts: `offset` is the first line, from 1, `limit` the number of lines."
        ),
        input_schema=_schema(
            {
                "path": path,
                "offset": {"type": "integer", "minimum": 1},
                "limit": {"type": "integer", "minimum": 1, "maximum": LINES_SHOWN},
            },
            "path",
        ),
        run=_read,
        effect="read",
        idempotent=True,
        concurrency_safe=True,
        timeout=30,
        targets=_reads,
    )
    write = Tool(
        name="write",
        own_name="write",
        kind="builtin",
        description=(
            "Write a whole file; folders on the way are made. An existing file must have been read first. "
            "To change a part of a file use `edit`. Definition files (skills/, AGENTS.md …) become a commit."
        ),
        input_schema=_schema({"path": path, "content": {"type": "string"}}, "path", "content"),
        run=_write,
        idempotent=True,
        timeout=60,
        targets=_writes,
        preview=_preview_write,
    )
    edit = Tool(
        name="edit",
        own_name="edit",
        kind="builtin",
        description=(
            "Replace passages of a file. Each `old` must occur exactly once, copied exactly; everything outside "
            "the passages stays as it is."
        ),
        input_schema=_schema(
            {
                "path": path,
                "edits": {
                    "type": "array",
                    "minItems": 1,
                    "items": _schema(
                        {"old": {"type": "string", "minLength": 1}, "new": {"type": "string"}}, "old", "new"
                    ),
                },
            },
            "path",
            "edits",
        ),
        run=_edit,
        timeout=60,
        targets=_writes,
        preview=_preview_edit,
    )
    return read, write, edit


def _schema(properties: JsonObject, *required: str) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _reads(context: ToolContext, arguments: JsonObject) -> tuple[Target, ...]:
    return _targets(context, arguments, "read")


def _writes(context: ToolContext, arguments: JsonObject) -> tuple[Target, ...]:
    return _targets(context, arguments, "write")


def _targets(context: ToolContext, arguments: JsonObject, access: Access) -> tuple[Target, ...]:
    return (resolve_target(context.roots, str(arguments["path"]), access),)


# --- read


async def _read(context: ToolContext, arguments: JsonObject) -> Outcome:
    if _is_small_file(context):
        return _read_now(context, arguments, a_file=True)
    return await anyio.to_thread.run_sync(_read_now, context, arguments, abandon_on_cancel=True)


def _is_small_file(context: ToolContext) -> bool:
    """Whether reading it takes less than handing it to a thread would."""
    try:
        status = os.lstat(context.targets[0].path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size <= SMALL


def _read_now(context: ToolContext, arguments: JsonObject, a_file: bool = False) -> Outcome:
    shown = str(arguments["path"])
    target = decided(context)
    if isinstance(target, Outcome):
        return target
    try:
        entries = None if a_file else list_folder(target.path)
        if entries is not None:
            return _listing(context, target, shown, entries)
        data = read_file(target.path, at_most=OPENED_AT_MOST)
    except Unusable as error:
        return failed("unusable", str(error))
    if data is None:
        return failed("not_found", f"There is no file or folder {shown}.")
    seen = look(data)
    if not isinstance(seen, Text):
        return failed("no_text", f"{shown} is {describe(seen, len(data))}; only text can be read.")
    context.seen.note(target.path, data)
    offset = int(arguments.get("offset", 1))
    text, last = _part(seen.text, offset, int(arguments.get("limit", LINES_SHOWN)))
    return succeeded(text, changed=context.seen.part(target.path, offset, last), origin="local")


def decided(context: ToolContext) -> Target | Outcome:
    """The one place that the gate decided about."""
    (target,) = context.targets
    if target.within in {"outside", "hidden"}:
        return failed("outside", f"{target.path} is not open to this agent. {target.note}".rstrip())
    return target


def _listing(context: ToolContext, target: Target, shown: str, entries: list[Entry]) -> Outcome:
    lines: list[str] = []
    for entry in entries:
        child = resolve_target(context.roots, f"{target.path.rstrip('/')}/{entry.name}", "read")
        if child.within == "hidden":
            continue
        if len(lines) >= ENTRIES_SHOWN:
            lines.append(f"[… more than {ENTRIES_SHOWN} entries; the rest is not shown]")
            break
        note = {"a folder": "/", "a file": f"  {entry.size:,} bytes"}.get(entry.kind, f"  ({entry.kind})")
        lines.append(entry.name.encode(errors="replace").decode() + note)
    listed = "\n".join(lines) or f"[{shown} is empty]"
    context.seen.note(target.path, listed.encode())
    return succeeded(listed, changed=context.seen.part(target.path, 1, len(lines)), origin="local")


def _part(text: str, offset: int, limit: int) -> tuple[str, int]:
    """The lines from `offset` on, with a note about whatever is not shown; and the last line that is."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    total = len(lines)
    if not total:
        return "[the file is empty]", 1
    if offset > total:
        return f"[the file has {total:,} lines; there is no line {offset:,}]", 0
    shown: list[str] = []
    room = CHARACTERS_SHOWN
    for line in lines[offset - 1 : offset - 1 + limit]:
        short = (
            line
            if len(line) <= LINE_SHOWN
            else f"{line[:LINE_SHOWN]}[… {len(line) - LINE_SHOWN:,} characters of this line left out]\n"
        )
        if len(short) > room:
            break
        room -= len(short)
        shown.append(short)
    last = offset - 1 + len(shown)
    if offset == 1 and last == total:
        return "".join(shown), last
    more = f"; go on with offset {last + 1}" if last < total else ""
    return "".join(shown).rstrip("\n") + f"\n[lines {offset:,} to {last:,} of {total:,}{more}]", last


# --- write


@dataclass(frozen=True, slots=True)
class _New:
    """What a call would make of the file: `before` is None where there is no file yet."""

    target: Target
    before: bytes | None
    after: bytes
    exact: tuple[tuple[str, str], ...] | None

    @property
    def base(self) -> str | None:
        return None if self.before is None else blob_id(self.before)


async def _write(context: ToolContext, arguments: JsonObject) -> Outcome:
    new = await anyio.to_thread.run_sync(_written, context, arguments)
    return new if isinstance(new, Outcome) else await _put(context, new)


def _preview_write(context: ToolContext, arguments: JsonObject) -> Preview | Outcome:
    new = _written(context, arguments)
    return new if isinstance(new, Outcome) else _preview(context, new)


def _written(context: ToolContext, arguments: JsonObject) -> _New | Outcome:
    after = str(arguments["content"]).encode()
    if len(after) > WRITTEN_AT_MOST:
        return failed("too_large", f"This has {len(after):,} bytes; a file is written with up to {WRITTEN_AT_MOST:,}.")
    found = _present(context)
    if isinstance(found, Outcome):
        return found
    target, before = found
    if before is not None and before != after and not context.approved and context.seen.version(target.path) is None:
        return failed("unread", "The file exists and was not read in this session; read it first. Nothing was written.")
    return _New(target, before, after, None)


# --- edit


async def _edit(context: ToolContext, arguments: JsonObject) -> Outcome:
    new = await anyio.to_thread.run_sync(_edited, context, arguments)
    return new if isinstance(new, Outcome) else await _put(context, new)


def _preview_edit(context: ToolContext, arguments: JsonObject) -> Preview | Outcome:
    new = _edited(context, arguments)
    return new if isinstance(new, Outcome) else _preview(context, new)


def _edited(context: ToolContext, arguments: JsonObject) -> _New | Outcome:
    found = _present(context)
    if isinstance(found, Outcome):
        return found
    target, before = found
    if before is None:
        return failed("not_found", f"There is no file {arguments['path']}; make it with `write`.")
    edits = tuple(Edit(str(one["old"]), str(one["new"])) for one in arguments["edits"])
    done = replace_exactly(before, edits)
    if isinstance(done, NoMatch):
        place = f"Edit {done.number} of {len(edits)}: " if len(edits) > 1 else ""
        return failed("no_match", f"{place}{done.message}. Nothing was changed.")
    return _New(target, before, done.data, done.exact)


# --- what they share


def _present(context: ToolContext) -> tuple[Target, bytes | None] | Outcome:
    """The file as it is, unless the session knows another version and no person has approved this one."""
    target = decided(context)
    if isinstance(target, Outcome):
        return target
    try:
        before = read_file(target.path, at_most=OPENED_AT_MOST)
    except Unusable as error:
        return failed("unusable", str(error))
    known = None if context.approved else context.seen.version(target.path)
    if before is not None and known is not None and known != blob_id(before):
        return failed("stale", "The file changed since it was read; read it again. Nothing was changed.")
    return target, before


def _preview(context: ToolContext, new: _New) -> Preview | Outcome:
    change = _change(new)
    if change is not None:
        return preview_change(context, change)
    inside = new.target.home_path
    old, now = (f"a/{inside}", f"b/{inside}") if inside is not None else (new.target.path, new.target.path)
    names = (old if new.before is not None else "/dev/null", now)
    before, after = (
        (data or b"").decode(errors="replace").splitlines(keepends=True) for data in (new.before, new.after)
    )
    return Preview("".join(difflib.unified_diff(before, after, *names)), new.base)


async def _put(context: ToolContext, new: _New) -> Outcome:
    """The effect: a commit for a definition file, else the file itself."""
    if context.approved and new.base != context.base:
        return failed("stale", "The file changed since this was approved; ask again. Nothing was changed.")
    if new.before == new.after:
        context.seen.note(new.target.path, new.after)
        return succeeded("The file holds exactly this already; nothing was changed.")
    change = _change(new)
    if change is not None:
        outcome = await commit_change(context, change)
        if outcome.status == "ok":
            await anyio.to_thread.run_sync(_note_again, context, new.target.path)
        return outcome
    try:
        await anyio.to_thread.run_sync(lambda: replace_file(new.target.path, new.after, expected=new.before))
    except Unusable as error:
        return failed("unusable", str(error))
    context.seen.note(new.target.path, new.after)
    verb = "Made" if new.before is None else "Changed"
    return succeeded(f"{verb} {_shown(new.target)} ({len(new.after):,} bytes).", changed=True)


def _change(new: _New) -> Change | None:
    """The change of the home, if the file belongs to it; None for a plain file."""
    target = new.target
    if target.within != "home" or target.home_path is None:
        return None
    operation = PutFile(new.after) if new.exact is None else EditFile(new.exact)
    return Change(target.home_path, operation, new.base)


def _note_again(context: ToolContext, path: str) -> None:
    """A commit may have merged the change into newer text; what stands now is what the session knows."""
    try:
        data = read_file(path, at_most=OPENED_AT_MOST)
    except Unusable:
        return
    if data is not None:
        context.seen.note(path, data)


def _shown(target: Target) -> str:
    return target.home_path or target.path
