"""What may a command line do? `judge` reads its syntax tree and answers for every simple command in it."""

from harnessd.permissions.shell.judge import judge
from harnessd.permissions.shell.judged import Judged, Level, SimpleCommand

__all__ = ["Judged", "Level", "SimpleCommand", "judge"]
