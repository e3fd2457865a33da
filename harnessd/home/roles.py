"""Which subagents does every home have without declaring any? `prompts/roles/`."""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from harnessd.home.definition import Definition
from harnessd.home.names import callable_name
from harnessd.home.subagents import Subagent, is_subagent_path, read_subagent

ROLES = ("explore", "general", "plan", "verify")


def helpers(definition: Definition) -> tuple[Subagent, ...]:
    """Everybody to whom a task can be given: the home's own subagents, then the built-in roles."""
    return (*definition.subagents, *roles_of(definition))


def helper(definition: Definition, name: str) -> Subagent | None:
    """The subagent called exactly `name`: a rule about a name must not be passed by another spelling of it."""
    return next((one for one in helpers(definition) if one.name == name), None)


def roles_of(definition: Definition) -> tuple[Subagent, ...]:
    """The built-in roles that the home does not replace by a file of that name, which may be a broken one."""
    taken = {one.name for one in definition.subagents} | set(_troubled(problem.path for problem in definition.problems))
    return tuple(role for role in _shipped() if role.name not in taken)


@cache
def _shipped() -> tuple[Subagent, ...]:
    found = []
    for name in ROLES:
        raw = files("harnessd.home").joinpath("prompts", "roles", f"{name}.md").read_bytes()
        role, _ = read_subagent(raw, f"roles/{name}.md")
        found += [role] if role else []
    return tuple(found)


def _troubled(paths: Iterable[str]) -> Iterable[str]:
    """The names of subagents' files with a problem: such a file may be missing from the definition."""
    return (callable_name(path.rpartition("/")[2][: -len(".md")]) for path in paths if is_subagent_path(path))
