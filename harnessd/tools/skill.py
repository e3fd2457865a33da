"""How the agent opens a recipe: `skill` gives its text and names what lies beside it."""

import anyio.to_thread

from harnessd.facts.message import JsonObject
from harnessd.home.frames import framed, one_line
from harnessd.home.index import find_skills
from harnessd.home.skills import Skill
from harnessd.permissions.paths import Roots, resolve_target
from harnessd.tools.near import near_names
from harnessd.tools.rooted import Unusable, list_folder
from harnessd.tools.tool import Outcome, Tool, ToolContext, failed, succeeded

RESOURCES_SHOWN = 50
SKILLS_SUGGESTED = 10
FOLDERS_SEARCHED = 30


def skill_tool() -> Tool:
    """`skill`."""
    return Tool(
        name="skill",
        own_name="skill",
        kind="builtin",
        description=(
            "Open a skill by its name before doing what it is about; the index in your prompt lists them. Not for a "
            "skill that you opened already in this conversation."
        ),
        input_schema={
            "type": "object",
            "properties": {"name": {"type": "string", "minLength": 1, "description": "e.g. fix-a-bug"}},
            "required": ["name"],
            "additionalProperties": False,
        },
        run=_open,
        effect="read",
        idempotent=True,
        concurrency_safe=True,
        timeout=30,
    )


async def _open(context: ToolContext, arguments: JsonObject) -> Outcome:
    wanted = str(arguments["name"])
    skills = context.definition.skills
    skill = context.definition.skill(wanted) or next((one for one in skills if one.path == wanted), None)
    if skill is None:
        return failed("not_found", f"There is no skill named {wanted[:80]!r}.{_hint(skills, wanted)}")
    resources = await anyio.to_thread.run_sync(_resources, context.roots, skill, abandon_on_cancel=True)
    beside = "".join(f"\n- {one_line(path)}" for path in resources)
    listed = f"\n\nFiles of this skill, to be opened with `read` when they are needed:{beside}" if resources else ""
    text = framed("skill", f"{skill.body.strip()}{listed}", name=skill.name, path=skill.path)
    return succeeded(text, changed=True)


def _hint(skills: tuple[Skill, ...], wanted: str) -> str:
    """What may have been meant: names that are near, and skills in whose name or description a word of it stands."""
    near = near_names(wanted, [one.name for one in skills])
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    found = find_skills(skills, wanted, limit=SKILLS_SUGGESTED)
    lines = "".join(f"\n- {one.name}: {' '.join(one.description.split())[:200]}" for one in found)
    return f"{hint} These may fit:{lines}" if found else hint


def _resources(roots: Roots, skill: Skill) -> list[str]:
    """Files beside SKILL.md, from the home, folder by folder; as many as are shown."""
    if not skill.folder:
        return []
    found: list[str] = []
    folders = [skill.folder.rstrip("/")]
    for _ in range(FOLDERS_SEARCHED):
        if not folders or len(found) >= RESOURCES_SHOWN:
            break
        folder = folders.pop(0)
        target = resolve_target(roots, folder, "read")
        try:
            entries = list_folder(target.path) if target.within == "home" else None
        except Unusable:
            entries = None
        for entry in entries or []:
            path = f"{folder}/{entry.name}"
            if entry.kind == "a folder" and not entry.name.startswith("."):
                folders.append(path)
            elif entry.kind == "a file" and path != skill.path:
                found.append(path)
    return found[:RESOURCES_SHOWN]
