"""How the agent reads and changes files: `read`, `write` and `edit`.

Paths are looked up from the home. Definition files change through the home's one door, as commits; `work/` and
the granted folders are plain files, replaced in one step. A file that changed since the session read it is not
overwritten.
"""

import os
import stat
from dataclasses import dataclass

import anyio.to_thread

from harnessd.facts.message import JsonObject
from harnessd.home.change import Change, EditFile, PutFile
from harnessd.home.tree import blob_id
from harnessd.permissions.call import Access, Target
from harnessd.permissions.paths import resolve_target
from harnessd.tools.diff import show_changes, whole_change
from harnessd.tools.doorway import commit_change, preview_change
from harnessd.tools.large import Survey, Window, revisit, stamp_of, survey
from harnessd.tools.looks import Binary, Text, describe, look
from harnessd.tools.replace import Edit, NoMatch, Replacement, replace_exactly
from harnessd.tools.rooted import Entry, Unusable, list_folder, open_file, read_file, replace_file
from harnessd.tools.tool import Outcome, Preview, Tool, ToolContext, failed, succeeded

READ_AT_MOST = 1024 * 1024 * 1024
EDITED_AT_MOST = 128 * 1024 * 1024
LARGE = 4 * 1024 * 1024
"""Bytes of a file from which on `read` streams it rather than hold it whole."""

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
            "Read a text file, or list a folder. Use it before you change a file or speak of it; not for a skill, "
            "which `skill` opens. Paths start at the home: skills/tea/SKILL.md, work/x.txt. "
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
            "Use it for new files; to "
            "change a part of a file use `edit` instead. Definition files (skills/, AGENTS.md …) become a commit."
        ),
        input_schema=_schema(
            {"path": path, "content": {"type": "string", "description": "the text of the whole file"}},
            "path",
            "content",
        ),
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
            "Replace passages of a file. Each `old` must occur exactly once, copied exactly, unless `all` is true; "
            "several edits are made one after another, all or none. Everything outside the passages stays as it is. "
            "Use it to change parts of a file that you have read; not for new files."
        ),
        input_schema=_schema(
            {
                "path": path,
                "edits": {
                    "type": "array",
                    "minItems": 1,
                    "items": _schema(
                        {
                            "old": {
                                "type": "string",
                                "minLength": 1,
                                "description": "the text as it stands, whole lines",
                            },
                            "new": {"type": "string", "description": "the text in its place"},
                            "all": {"type": "boolean", "description": "replace every occurrence"},
                        },
                        "old",
                        "new",
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
        if not a_file and _size(target.path) > LARGE:
            return _read_large(context, target, arguments)
        data = read_file(target.path, at_most=LARGE * 2)
    except Unusable as error:
        return failed("unusable", str(error))
    if data is None:
        return _nothing_there(arguments)
    seen = look(data)
    if not isinstance(seen, Text):
        return _no_text(seen, len(data), arguments)
    context.seen.note(target.path, data)
    window = _window(arguments)
    window.take(seen.text)
    window.end()
    total = seen.text.count("\n") + (not seen.text.endswith("\n") and bool(seen.text))
    return _shown_part(context, target, window, total)


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except (OSError, ValueError):
        return 0


def _read_large(context: ToolContext, target: Target, arguments: JsonObject) -> Outcome:
    """A file that is not held whole; its parts are found anew as long as it does not change."""
    window = _window(arguments)
    with open_file(target.path, at_most=READ_AT_MOST) as opened:
        if opened is None:
            return _nothing_there(arguments)
        known = context.seen.survey(target.path, stamp_of(opened.status))
        if known is not None:
            revisit(opened, known, window)
        else:
            found = survey(opened, window)
            if not isinstance(found, Survey):
                return _no_text(found, opened.status.st_size, arguments)
            known = found
    context.seen.note_survey(target.path, known)
    return _shown_part(context, target, window, known.lines)


def _nothing_there(arguments: JsonObject) -> Outcome:
    return failed("not_found", f"There is no file or folder {arguments['path']}.")


def _no_text(binary: Binary, size: int, arguments: JsonObject) -> Outcome:
    return failed("no_text", f"{arguments['path']} is {describe(binary, size)}; only text can be read.")


def _window(arguments: JsonObject) -> Window:
    limit = int(arguments.get("limit", LINES_SHOWN))
    return Window(int(arguments.get("offset", 1)), limit, room=CHARACTERS_SHOWN, width=LINE_SHOWN)


def _shown_part(context: ToolContext, target: Target, window: Window, total: int) -> Outcome:
    text, last = _part(window, total)
    return succeeded(text, changed=context.seen.part(target.path, window.first, last), origin="local")


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


def _part(window: Window, total: int) -> tuple[str, int]:
    """The lines of the window, with a note about whatever is not shown; and the last line that is."""
    if not total:
        return "[the file is empty]", 1
    if window.first > total:
        return f"[the file has {total:,} lines; there is no line {window.first:,}]", 0
    last = window.first - 1 + len(window.lines)
    if window.first == 1 and last == total:
        return "".join(window.lines), last
    more = f"; go on with offset {last + 1}" if last < total else ""
    return "".join(window.lines).rstrip("\n") + f"\n[lines {window.first:,} to {last:,} of {total:,}{more}]", last


# --- write


@dataclass(frozen=True, slots=True)
class _New:
    """What a call would make of the file: `before` is None where there is no file yet."""

    target: Target
    before: bytes | None
    after: bytes
    edited: Replacement | None = None

    @property
    def base(self) -> str | None:
        return None if self.before is None else blob_id(self.before)


async def _write(context: ToolContext, arguments: JsonObject) -> Outcome:
    new = await anyio.to_thread.run_sync(_written, context, arguments, abandon_on_cancel=True)
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
    return _New(target, before, after)


# --- edit


async def _edit(context: ToolContext, arguments: JsonObject) -> Outcome:
    new = await anyio.to_thread.run_sync(_edited, context, arguments, abandon_on_cancel=True)
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
    edits = tuple(Edit(str(one["old"]), str(one["new"]), bool(one.get("all"))) for one in arguments["edits"])
    done = replace_exactly(before, edits)
    if isinstance(done, NoMatch):
        place = f"Edit {done.number} of {len(edits)}: " if len(edits) > 1 else ""
        return failed("no_match", f"{place}{done.message}. Nothing was changed.")
    return _New(target, before, done.data, done)


# --- what they share


def _present(context: ToolContext) -> tuple[Target, bytes | None] | Outcome:
    """The file as it is, unless the session knows another version and no person has approved this one."""
    target = decided(context)
    if isinstance(target, Outcome):
        return target
    try:
        before = read_file(target.path, at_most=EDITED_AT_MOST)
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
    if new.edited is not None:
        return Preview(show_changes(new.edited.old, new.edited.new, new.edited.hunks, names), new.base)
    before = new.before or b""
    return Preview(show_changes(before, new.after, whole_change(before, new.after), names), new.base)


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
        told = await anyio.to_thread.run_sync(lambda: replace_file(new.target.path, new.after, expected=new.before))
    except Unusable as error:
        return failed("unusable", str(error))
    context.seen.note(new.target.path, new.after)
    verb = "Made" if new.before is None else "Changed"
    if new.target.shared:
        told = "; ".join(filter(None, (told, "its other names (hard links) keep the old content")))
    note = f" Note: {told}." if told else ""
    return succeeded(f"{verb} {_shown(new.target)} ({len(new.after):,} bytes).{note}", changed=True)


def _change(new: _New) -> Change | None:
    """The change of the home, if the file belongs to it; None for a plain file."""
    target = new.target
    if target.within != "home" or target.home_path is None:
        return None
    exact = new.edited.exact if new.edited is not None else None
    operation = PutFile(new.after) if exact is None else EditFile(exact)
    return Change(target.home_path, operation, new.base)


def _note_again(context: ToolContext, path: str) -> None:
    """A commit may have merged the change into newer text; what stands now is what the session knows."""
    try:
        data = read_file(path, at_most=EDITED_AT_MOST)
    except Unusable:
        return
    if data is not None:
        context.seen.note(path, data)


def _shown(target: Target) -> str:
    return target.home_path or target.path
