"""How are the nodes of a syntax tree held against the text that they were made from?"""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

BLANKS = re.compile(r"(?:[ \t\n]|\\\n)*")
BLANKS_IN_LINE = re.compile(r"(?:[ \t]|\\\n)*")
NOTHING = re.compile("")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class NotPlainError(Exception):
    """Something in the tree is not believed; never leaves `tree.py`."""


class Source:
    """The line as bytes, which is what the nodes count in."""

    def __init__(self, line: bytes) -> None:
        self.line = line

    def text(self, node: "Node") -> str:
        """What stands there."""
        return self.line[node.start_byte : node.end_byte].decode()

    def begin(self, node: "Node") -> int:
        """Where the node's text begins; the grammar counts blanks before it in."""
        text = self.text(node)
        return node.start_byte + len(text) - len(text.lstrip())

    def gaps(self, node: "Node", blanks: re.Pattern[str]) -> None:
        """Only blanks lie between the children of `node`, before the first and behind the last.

        Raises `NotPlainError`.
        """
        at = node.start_byte
        for child in (*node.children, None):
            stop = node.end_byte if child is None else child.start_byte
            between = self.line[at:stop].decode("utf-8", "replace")
            if stop < at or not blanks.fullmatch(between):
                raise NotPlainError("the grammar skips a part of it")
            at = stop if child is None else child.end_byte
        if node.type == "program":
            rest = (self.line[: node.start_byte] + self.line[node.end_byte :]).decode("utf-8", "replace")
            if not BLANKS.fullmatch(rest):
                raise NotPlainError("the grammar skips a part of it")

    def name(self, node: "Node") -> str:
        """The node as the name of a variable. Raises `NotPlainError`."""
        name = self.text(node)
        if not NAME.fullmatch(name):
            raise NotPlainError("the name of a variable is not plain")
        return name
