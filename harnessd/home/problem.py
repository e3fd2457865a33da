"""What is odd about a home, told so that a person can mend it."""

from typing import Literal

from harnessd.facts.base import Record


class Problem(Record):
    """One finding. `line` and `column` count from 1, 0 means the whole file.

    `notice`: it loaded, something is odd. `warning`: it loaded, but not as its writer may think.
    `error`: it did not load, or an older version is used in its place.
    """

    path: str = ""
    line: int = 0
    column: int = 0
    code: str = ""
    severity: Literal["notice", "warning", "error"] = "notice"
    message: str = ""
    fix: str = ""

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.severity}: {self.message} ({self.code})" + (f"\n  {self.fix}" if self.fix else "")
