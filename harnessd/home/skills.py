"""What is a skill, and what does its file say?"""

from harnessd.facts.base import Record
from harnessd.home.document import Document, first_paragraph, read_document
from harnessd.home.header import folded, text_value
from harnessd.home.names import callable_name
from harnessd.home.problem import Problem
from harnessd.home.settings import split_names

DESCRIPTION_LIMIT = 1024
"""Characters of a description that the Agent Skills format allows; longer ones load, and are reported."""

TITLE_LIMIT = 100
"""Characters of a title that are shown."""


class Skill(Record):
    """A recipe: called by `name`, shown as `title`; `body` is given to the model when it asks for it.

    `allowed_tools` is what the recipe's writer expects to use; it grants nothing. `listed` is false when only
    a person may call it. `folder` is the directory of its scripts and references, `""` for the flat form.
    """

    name: str = ""
    title: str = ""
    description: str = ""
    body: str = ""
    path: str = ""
    folder: str = ""
    allowed_tools: tuple[str, ...] = ()
    listed: bool = True


def is_skill_path(path: str) -> bool:
    """Whether `path` is a skill's own file: `skills/…/SKILL.md` in any case, or `skills/<name>.md`."""
    steps = path.split("/")
    if len(steps) < 2 or steps[0] != "skills":
        return False
    if len(steps) == 2:
        return steps[1].lower().endswith(".md") and steps[1].lower() not in {"readme.md", "skill.md"}
    return len(steps) <= 6 and steps[-1].lower() == "skill.md"


def skill_name(path: str) -> str:
    """The name by which the skill at `path` is called: that of its folder, or of its flat file."""
    steps = path.split("/")
    return callable_name(steps[-2] if len(steps) > 2 else steps[-1][: -len(".md")])


def read_skill(raw: bytes, path: str) -> tuple[Skill | None, tuple[Problem, ...]]:
    """The skill in `raw`; None if the file says nothing. Never raises."""
    document = read_document(raw, path)
    problems = list(document.problems)
    if not document.body.strip() and not document.header:
        problems.append(
            Problem(
                path=path,
                code="empty",
                severity="warning",
                message="the skill is empty; it is not offered",
                fix="write a name, a description and the recipe, or delete the file",
            )
        )
        return None, tuple(problems)
    title, odd_name = _title(document)
    description, odd_description = described(document, what="skill")
    _, tools = _tools(document)
    skill = Skill(
        name=skill_name(path),
        title=title,
        description=description,
        body=document.body.strip("\n"),
        path=path,
        folder=path.rpartition("/")[0] if path.count("/") > 1 else "",
        allowed_tools=tools,
        listed=not _is_true(document, "disablemodelinvocation"),
    )
    return skill, (*problems, *odd_name, *odd_description)


def described(document: Document, what: str) -> tuple[str, tuple[Problem, ...]]:
    """The description in a header, on as many lines as written, else the body's first paragraph, reported."""
    key, description = text_value(document.header, "description")
    line = document.key_lines.get(key, 0)
    if description:
        if len(description) <= DESCRIPTION_LIMIT:
            return description, ()
        return description, (
            Problem(
                path=document.path,
                line=line,
                code="description-long",
                message=f"the description has {len(description):,} characters, the format allows 1,024",
                fix="say in two sentences what it does and when to use it; the rest belongs in the body",
            ),
        )
    _, hint = text_value(document.header, "whentouse")
    fallback = hint or first_paragraph(document.body)[:DESCRIPTION_LIMIT]
    written = next((key for key in document.header if folded(key) == "description"), "")
    return fallback, (
        Problem(
            path=document.path,
            line=document.key_lines.get(written, 1),
            code="no-description",
            severity="warning",
            message="there is no description; "
            + ("the first paragraph stands in" if fallback else f"the model can't know when to use this {what}"),
            fix="add to the header: description: What it does. Use when …",
        ),
    )


def shown_title(document: Document, written: str) -> tuple[str, tuple[Problem, ...]]:
    """The name in the header if there is one, else `written` (the name of the folder or file), reported."""
    key, title = text_value(document.header, "name")
    title = " ".join(title.split())[:TITLE_LIMIT]
    if not title:
        return written, (
            Problem(
                path=document.path,
                line=1,
                code="no-name",
                message=f"there is no name in a header; {written!r} comes from the path",
                fix=f"add to the header: name: {callable_name(written)}",
            ),
        )
    if title == written or callable_name(title) == callable_name(written) == title:
        return title, ()
    return title, (
        Problem(
            path=document.path,
            line=document.key_lines.get(key, 0),
            code="name-differs",
            message=f"shown as {title!r}, but called {callable_name(written)!r} after its path",
            fix="give both the same name, in a-z, 0-9 and '-'",
        ),
    )


def _title(document: Document) -> tuple[str, tuple[Problem, ...]]:
    steps = document.path.split("/")
    return shown_title(document, steps[-2] if len(steps) > 2 else steps[-1][: -len(".md")])


def _tools(document: Document) -> tuple[str, tuple[str, ...]]:
    for key, value in document.header.items():
        if folded(key) in {"allowedtools", "tools"}:
            if isinstance(value, str):
                return key, split_names(value)
            if isinstance(value, list):
                return key, tuple(item for item in value if isinstance(item, str))
    return "", ()


def _is_true(document: Document, name: str) -> bool:
    _, value = text_value(document.header, name)
    return value.lower() in {"true", "yes", "on", "1"}
