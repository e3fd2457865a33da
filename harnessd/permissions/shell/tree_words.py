"""How is a node of the syntax tree read as a word? Only where each part of it looks like what the tree calls it."""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from harnessd.permissions.shell.tree_text import NOTHING, NotPlainError, Source
from harnessd.permissions.shell.word import ANYTHING, Word, names

if TYPE_CHECKING:
    from tree_sitter import Node

DEEPEST = 60
"""Levels of a tree that are followed."""

LITERALS = names(
    "word string raw_string ansi_c_string concatenation number simple_expansion expansion command_substitution "
    "process_substitution brace_expression arithmetic_expansion"
)
EXPANDS = re.compile(r"\$[A-Za-z0-9_{(@*#?$!\['\"-]|`")
_PLAIN_WORD = re.compile(r"(?:[^\s\\|&;()<>$`'\"]|\\.|\\\n|\$(?=$|[^A-Za-z0-9_{(@*#?$!\['\"-]))+", re.DOTALL)
_ARITHMETIC = re.compile(r"[0-9 +*/%()<>=!&|^~?:-]*")
_OPERATORS = names("# ## % %% / // : ^ ^^ , ,, - :- + :+ ? :?")
_GLOB = re.compile(r"[*?]+|\[[^\]]*\]?")


class Words:
    """Reads words; `statements` is given every command line that stands in one, with its depth."""

    def __init__(self, source: Source, statements: Callable[["Node", int], None]) -> None:
        self.source, self.statements = source, statements

    def read(self, node: "Node", depth: int) -> Word:
        """The node as a word: quotes gone, what expands replaced by `ANYTHING`."""
        if depth > DEEPEST:
            raise NotPlainError("it is nested too deep")
        pieces = list(self._pieces(node, depth))
        text, many, loose = "", False, False
        computed = any(ANYTHING in piece for piece, _ in pieces)
        if computed and "@" in self.source.text(node):
            many = loose = True  # "$@" and "${a[@]}" are several words though quoted
        for piece, quoted in pieces:
            if quoted:
                text += piece
                loose = loose or (text == piece and piece[:1] == ANYTHING)
                continue
            if ANYTHING in piece:
                many = loose = True
            globbed = _GLOB.sub(ANYTHING, piece)
            if globbed != piece:
                many = True
                loose = loose or (not text and globbed.startswith(ANYTHING))
            text += globbed
        _, _, inner = "".join(p if not q else "x" for p, q in pieces).partition("{")
        inner, close, _ = inner.rpartition("}")
        if close and ("," in inner or ".." in inner):
            head = _unquoted_until(pieces, "{")
            return Word(head + ANYTHING, many=True, loose=loose or not head, computed=computed)
        return Word(text, many, loose, computed)

    def _pieces(self, node: "Node", depth: int) -> Iterator[tuple[str, bool]]:
        """Text and whether it is quoted; an unquoted `ANYTHING` may become several words."""
        kind, text = node.type, self.source.text(node)
        if kind == "concatenation":
            self.source.gaps(node, NOTHING)
            for child in node.children:
                if child.type == "$" and child == node.children[-1] and self._ends_word(child):
                    yield "$", True
                else:
                    yield from self._pieces(child, depth + 1)
        elif kind == "brace_expression":
            yield text, False
        elif kind in {"word", "number"} and not node.named_child_count:
            if not _PLAIN_WORD.fullmatch(text) or text.startswith("#"):
                raise NotPlainError("a word is not plain")
            for escaped, plain in re.findall(r"\\(.)|([^\\]+)", text.replace("\\\n", ""), re.DOTALL):
                yield (escaped, True) if escaped else (plain, False)
        elif kind == "raw_string":
            if len(text) < 2 or text[0] != "'" or text[-1] != "'" or "'" in text[1:-1]:
                raise NotPlainError("a quotation is not plain")
            yield text[1:-1], True
        elif kind == "ansi_c_string":
            if not re.fullmatch(r"\$'(?:[^\\']|\\[nt\\])*'", text, re.DOTALL):
                raise NotPlainError("a word is written in codes")
            yield re.sub(r"\\(.)", lambda at: {"n": "\n", "t": "\t"}.get(at[1], at[1]), text[2:-1]), True
        elif kind == "string":
            yield self._string(node, depth), True
        elif kind in {"simple_expansion", "expansion", "command_substitution", "arithmetic_expansion"}:
            self.expansion(node, depth)
            yield ANYTHING, kind == "arithmetic_expansion" or text in {"$?", "$#", "$$"}
        elif kind == "process_substitution":
            self.statements(node, depth + 1)
            yield "/dev/fd/" + ANYTHING, True
        else:
            raise NotPlainError(f"it holds syntax that is not judged ({kind})")

    def _ends_word(self, node: "Node") -> bool:
        return self.source.line[node.end_byte : node.end_byte + 1] in {b"", b" ", b"\t", b"\n", b";", b"|", b"&", b")"}

    def _string(self, node: "Node", depth: int) -> str:
        inner = [child for child in node.children if child.type not in {'"', "string_content"}]
        text = self.source.text(node)
        if len(text) < 2 or text[0] != '"' or text[-1] != '"':
            raise NotPlainError("a quotation is not plain")
        begin, end = node.start_byte + 1, node.end_byte - 1
        self.no_other_expansion(begin, end, inner, quote=True)
        value, at = "", begin
        for child in inner:
            value += _unescaped(self.source.line[at : self.source.begin(child)].decode()) + ANYTHING
            self.expansion(child, depth)
            at = child.end_byte
        return value + _unescaped(self.source.line[at:end].decode())

    def no_other_expansion(self, begin: int, end: int, inner: list["Node"], *, quote: bool = False) -> None:
        """Between the expansions that the tree shows there is no other one, and no end of the quotation."""
        at = begin
        for child in (*inner, None):
            stop = end if child is None else self.source.begin(child)
            between = re.sub(r"\\.", "", self.source.line[at:stop].decode(), flags=re.DOTALL)
            if EXPANDS.search(between) or (quote and '"' in between) or between.endswith("\\"):
                raise NotPlainError("a quotation is not plain")
            at = end if child is None else child.end_byte

    def expansion(self, node: "Node", depth: int) -> None:
        """Looks at what a variable, a command or arithmetic puts in its place. Raises `NotPlainError`."""
        kind, text = node.type, self.source.text(node).strip()
        if kind == "simple_expansion":
            if not re.fullmatch(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!_-])", text):
                raise NotPlainError("a variable is not plain")
        elif kind == "command_substitution":
            self.statements(node, depth + 1)
        elif kind == "arithmetic_expansion":
            if not text.startswith("$((") or not _ARITHMETIC.fullmatch(text[3:-2]):
                raise NotPlainError("arithmetic can run commands")
        elif kind == "expansion":
            self._parameter(node, depth)
        else:
            raise NotPlainError(f"it holds syntax that is not judged ({kind})")

    def _parameter(self, node: "Node", depth: int) -> None:
        """`${…}` in the forms that only read."""
        dollar, *parts, brace = node.children
        if self.source.text(dollar).strip() != "${" or brace.type != "}":
            raise NotPlainError("a variable is not plain")
        substring = any(part.type == ":" for part in parts)
        for number, part in enumerate(parts):
            text = self.source.text(part)
            if part.type == "subscript":
                if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*\[(?:[0-9]+|@|\*)\]", text):
                    raise NotPlainError("a subscript can run commands")
            elif part.type == "variable_name" and substring and number > 1:
                raise NotPlainError("arithmetic can run commands")
            elif part.type in {"variable_name", "special_variable_name"}:
                pass
            elif not part.is_named:
                if part.type not in _OPERATORS:
                    raise NotPlainError(f"a variable is not plain (${{…{part.type}…}})")
            elif part.type == "regex":
                if EXPANDS.search(text) or "(" in text or "\\" in text:
                    raise NotPlainError("a pattern is not plain")
            elif substring and not text.isdigit():
                raise NotPlainError("arithmetic can run commands")
            else:
                self.read(part, depth + 1)


def _unescaped(text: str) -> str:
    """What stands between double quotes, as the command sees it."""
    return re.sub(r"\\([$`\"\\\n])", lambda at: "" if at[1] == "\n" else at[1], text)


def _unquoted_until(pieces: list[tuple[str, bool]], mark: str) -> str:
    """The text before the first unquoted `mark`, globs replaced."""
    head = ""
    for piece, quoted in pieces:
        if not quoted and mark in piece:
            return head + _GLOB.sub(ANYTHING, piece[: piece.index(mark)])
        head += piece if quoted else _GLOB.sub(ANYTHING, piece)
    return head
