"""Which system message follows from a definition? Always the same one from the same files.

No clock, no random order. What changes least stands first, so that a provider's cache keeps the longest
prefix: AGENTS.md, KNOWLEDGE.md, how to use the home, the indexes, and the memories last.
"""

from functools import cache
from importlib.resources import files
from typing import Literal

from harnessd.home.bounded import shown
from harnessd.home.definition import Definition
from harnessd.home.frames import defused, framed
from harnessd.home.index import index_of
from harnessd.home.problem import Problem

FILE = "home-file"
"""The tag between which a file of the home stands."""


def render_prompt(definition: Definition) -> str:
    """The system message. Its length is bounded, whatever the home holds; each cut is told in its place."""
    parts = [
        shown_file("AGENTS.md", definition.agents.body),
        shown_file("KNOWLEDGE.md", definition.knowledge),
        fixed_text("home").strip(),
        _index("Skills", "skills", definition),
        _index("Subagents", "subagents", definition),
        shown_file("MEMORY.md", definition.memory),
    ]
    if definition.user_id is not None and definition.user_memory is not None:
        parts.append(shown_file(user_memory_path(definition.user_id), definition.user_memory))
    return "\n\n".join(part for part in parts if part) + "\n"


def render_subagent_prompt(definition: Definition, *, delegates: bool) -> str:
    """The system message of a subagent: its own file stands for AGENTS.md, and no memory is told."""
    parts = [
        shown_file(definition.agents.path, definition.agents.body),
        shown_file("KNOWLEDGE.md", definition.knowledge),
        fixed_text("subagent").strip(),
        _index("Skills", "skills", definition),
        _index("Subagents", "subagents", definition) if delegates else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def prompt_problems(definition: Definition) -> tuple[Problem, ...]:
    """Everything of the definition that is not in its prompt, or a subagent's, in full."""
    texts = {subagent.path: subagent.prompt for subagent in definition.subagents} | {
        "AGENTS.md": definition.agents.body,
        "KNOWLEDGE.md": definition.knowledge,
        "MEMORY.md": definition.memory,
    }
    if definition.user_id is not None and definition.user_memory is not None:
        texts[user_memory_path(definition.user_id)] = definition.user_memory
    found = [shown(text, path).problem for path, text in texts.items()]
    listed = [skill for skill in definition.skills if skill.listed]
    found += [index_of(listed, "skills").problem, index_of(definition.subagents, "subagents").problem]
    return tuple(problem for problem in found if problem)


def user_memory_path(user_id: str) -> str:
    """Where what is known of one user stands."""
    return f"users/{user_id}/MEMORY.md"


@cache
def fixed_text(name: str) -> str:
    """One of the package's own texts, `prompts/<name>.md`."""
    return files("harnessd.home").joinpath("prompts", f"{name}.md").read_text(encoding="utf-8")


def shown_file(path: str, text: str) -> str:
    """A file as the model is shown it: between two tags, within its limit; nothing if there is no text."""
    inside = shown(text, path).text
    return framed(FILE, inside, path=path) if inside.strip() else ""


def _index(title: str, folder: Literal["skills", "subagents"], definition: Definition) -> str:
    entries = [skill for skill in definition.skills if skill.listed] if folder == "skills" else definition.subagents
    text = index_of(entries, folder).text
    return f"# {title}\n\n{defused(text, FILE)}" if text else ""
