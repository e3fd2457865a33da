"""What does a home declare that this version reads and keeps, but does not carry out yet?"""

from harnessd.home.definition import Definition
from harnessd.home.problem import Problem


def not_run_yet(definition: Definition) -> tuple[Problem, ...]:
    """One problem for each such part, so that nobody waits for what will not happen."""
    declared = (
        ("AGENTS.md", "a schedule is declared here; it is not run yet", definition.settings.schedule),
        ("graphs", "graphs are declared here; they are not run yet", definition.graphs),
    )
    fix = "leave it for a later version of harnessd, or take it out"
    return tuple(
        Problem(path=path, code="not-run-yet", severity="warning", message=message, fix=fix)
        for path, message, parts in declared
        if parts
    )
