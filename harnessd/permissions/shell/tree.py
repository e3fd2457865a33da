"""How is a command line read? By a real grammar, whose tree is believed only where it is plain.

The grammar tolerates errors and misreads some valid lines, so its tree is a proposal: each node must be of a kind that
is known here, each leaf must look like what it is called, and nothing but blanks may lie between the leaves. Anything
else is obscure. What bash and dash read differently is obscure as well, since either may run the line.
"""

import functools
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from harnessd.permissions.shell.line import Assignment, Call, Line, Obscure, Redirect
from harnessd.permissions.shell.tree_text import BLANKS, BLANKS_IN_LINE, NAME, NOTHING, NotPlainError, Source
from harnessd.permissions.shell.tree_words import DEEPEST, EXPANDS, LITERALS, Words
from harnessd.permissions.shell.word import ANYTHING, Word, names

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

LONGEST = 20_000
"""Characters of a line that is read; a longer one is no command of daily work."""


def read_line(command: str) -> Line | Obscure:
    """The line's simple commands, or why it is not understood. Raises nothing."""
    if len(command) > LONGEST:
        return Obscure(f"it is longer than {LONGEST:,} characters")
    for character in command:
        if character not in " \n\t" and unicodedata.category(character)[0] in "CZ":
            return Obscure(f"it holds a character that is not shown (U+{ord(character):04X})")
    source = command.encode()
    root = _parser().parse(source).root_node
    if root.has_error:
        return Obscure("its syntax is not understood")
    reader = _Reader(source)
    try:
        reader.statements(root, 0)
    except NotPlainError as problem:
        return Obscure(str(problem))
    return Line(tuple(reader.calls))


@functools.cache
def _parser() -> "Parser":
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


_TOKENS = {"\n"} | names(
    "; & && || | |& ( ) { } ! if then else elif fi while until do done for in case esac ;; $( ` <( >("
)
_CONTAINERS = names(
    "program list pipeline subshell compound_statement negated_command if_statement elif_clause else_clause "
    "while_statement do_group redirected_statement command_substitution process_substitution"
)
_WRITES = frozenset(("<", ">", ">>", ">|", "&>", "&>>", ">&", "<&", ">&-", "<&-"))


class _Reader:
    """Walks the tree once and collects the calls."""

    def __init__(self, source: bytes) -> None:
        self.source = Source(source)
        self.words = Words(self.source, self.statements)
        self.calls: list[Call] = []

    def statements(self, node: "Node", depth: int) -> None:
        """Everything that runs below `node`."""
        if depth > DEEPEST:
            raise NotPlainError("it is nested too deep")
        kind = node.type
        special: Mapping[str, Callable[[Node, int], None]] = {
            "command": self._command,
            "variable_assignment": self._command,
            "variable_assignments": self._command,
            "declaration_command": self._declaration,
            "unset_command": self._declaration,
            "redirected_statement": self._redirected,
            "test_command": self._test,
            "for_statement": self._for,
            "case_statement": self._case,
            "case_item": self._case,
        }
        if kind in special:
            special[kind](node, depth)
        elif kind == "comment":
            self._comment(node)
        elif kind == "file_redirect" and node.parent is not None and node.parent.type == "command_substitution":
            self.calls.append(self._redirect_call(node, depth))  # $(< file)
        elif kind in _CONTAINERS:
            if kind == "compound_statement" and node.children[0].type != "{":
                raise NotPlainError("arithmetic can run commands")
            if kind == "command_substitution" and self.source.text(node)[0] == "`" and "\\" in self.source.text(node):
                raise NotPlainError("a backslash between backquotes means something else again")
            self.source.gaps(node, BLANKS)
            for child in node.children:
                self.statements(child, depth + 1)
        elif node.is_named or (kind not in _TOKENS and self.source.text(node).strip() not in _TOKENS):
            raise NotPlainError(f"it holds syntax that is not judged ({kind})")

    def _command(self, node: "Node", depth: int) -> None:
        self.calls.append(self._call(node, depth))

    def _call(self, node: "Node", depth: int) -> Call:
        words: list[Word] = []
        assignments: list[Assignment] = []
        redirects: list[Redirect] = []
        parts = [node] if node.type == "variable_assignment" else node.children
        if node.type != "variable_assignment":
            self.source.gaps(node, BLANKS_IN_LINE)
        for part in parts:
            if part.type == "variable_assignment":
                assignments.append(self._assignment(part, depth))
            elif part.type == "command_name":
                words.append(self.words.read(part.children[0] if part.child_count else part, depth))
                self._command_position(part)
            elif part.type in {"file_redirect", "herestring_redirect", "heredoc_redirect"}:
                redirect, extra = self._redirect(part, depth)
                redirects += redirect
                words += extra
            elif part.type in {"==", "=~"}:
                words.append(Word(part.type))
            elif part.type in LITERALS:
                words.append(self.words.read(part, depth))
            else:
                raise NotPlainError(f"it holds syntax that is not judged ({part.type})")
        return Call(tuple(words), tuple(assignments), tuple(redirects))

    def _command_position(self, node: "Node") -> None:
        text = self.source.text(node)
        if not text.isascii():
            raise NotPlainError("the name of a command holds letters that may look like others")
        if text in _RESERVED:
            raise NotPlainError(f"{text!r} stands where a command should")

    def _declaration(self, node: "Node", depth: int) -> None:
        first, *rest = node.children
        self.source.gaps(node, BLANKS_IN_LINE)
        assignments, words = [], [Word(self.source.text(first))]
        for part in rest:
            if part.type == "variable_assignment":
                assignments.append(self._assignment(part, depth))
            elif part.type == "variable_name":
                assignments.append(Assignment(self.source.name(part), None))
            elif part.type in LITERALS:
                words.append(self.words.read(part, depth))
            else:
                raise NotPlainError(f"it holds syntax that is not judged ({part.type})")
        self.calls.append(Call(tuple(words), tuple(assignments), declares=self.source.text(first)))

    def _assignment(self, node: "Node", depth: int) -> Assignment:
        self.source.gaps(node, NOTHING)
        name, operator, *values = node.children
        if name.type != "variable_name" or operator.type not in {"=", "+="} or len(values) > 1:
            raise NotPlainError("an assignment with a subscript can run commands")
        if operator.type == "+=":
            raise NotPlainError("`+=` is read differently by other shells")
        if not values:
            return Assignment(self.source.name(name), Word(""))
        if values[0].type == "array":
            self.source.gaps(values[0], BLANKS)
            for item in values[0].children[1:-1]:
                if item.type not in LITERALS:
                    raise NotPlainError(f"it holds syntax that is not judged ({item.type})")
                self.calls.append(
                    Call(assignments=(Assignment(self.source.name(name), self.words.read(item, depth), array=True),))
                )
            return Assignment(self.source.name(name), Word(ANYTHING), array=True)
        return Assignment(self.source.name(name), self.words.read(values[0], depth))

    def _redirected(self, node: "Node", depth: int) -> None:
        self.source.gaps(node, BLANKS)
        redirects: list[Redirect] = []
        words: list[Word] = []
        body: Node | None = None
        for child in node.children:
            if child.type in {"file_redirect", "herestring_redirect", "heredoc_redirect"}:
                found, extra = self._redirect(child, depth)
                redirects += found
                words += extra
            elif body is None and not redirects:
                body = child
            else:
                raise NotPlainError(f"it holds syntax that is not judged ({child.type})")
        if body is not None and body.type == "command":
            call = self._call(body, depth)
            joined = Call((*call.words, *words), call.assignments, (*call.redirects, *redirects))
            self.calls.append(joined)
            return
        if words:
            raise NotPlainError("words stand behind a redirection that is no command's")
        if redirects:
            self.calls.append(Call(redirects=tuple(redirects)))
        if body is not None:
            self.statements(body, depth + 1)

    def _redirect_call(self, node: "Node", depth: int) -> Call:
        redirects, words = self._redirect(node, depth)
        return Call(tuple(words), (), tuple(redirects))

    def _redirect(self, node: "Node", depth: int) -> tuple[list[Redirect], list[Word]]:
        """The redirection, and the words behind its target, which belong to the command."""
        if node.type == "heredoc_redirect":
            return self._here_document(node, depth)
        self.source.gaps(node, BLANKS_IN_LINE)
        parts = list(node.children)
        if parts[0].type == "file_descriptor":
            if not self.source.text(parts[0]).isdigit():
                raise NotPlainError("a redirection names its descriptor by a variable")
            parts.pop(0)
        operator = self.source.text(parts.pop(0))
        if any(part.type not in LITERALS for part in parts):
            raise NotPlainError("a redirection is not plain")
        words = [self.words.read(part, depth) for part in parts]
        if node.type == "herestring_redirect":
            return [], words[1:]
        if operator not in _WRITES:
            raise NotPlainError(f"a redirection is not plain ({operator})")
        if operator in {">&-", "<&-"}:
            return [], words
        if not words:
            raise NotPlainError("a redirection has no target")
        return [Redirect(operator, words[0])], words[1:]

    def _here_document(self, node: "Node", depth: int) -> tuple[list[Redirect], list[Word]]:
        """Believed only if the document begins and ends where a look at the lines says so too."""
        parts = {child.type: child for child in node.children}
        start, end = parts.get("heredoc_start"), parts.get("heredoc_end")
        if start is None or end is None or len(self.source.line.split(b"<<")) != 2:
            raise NotPlainError("its here-documents are not plain")
        written = self.source.text(start)
        word = written.strip("'\"")
        if written not in {word, f"'{word}'", f'"{word}"'} or not NAME.fullmatch(word):
            raise NotPlainError("the end of a here-document is not plain")
        tabs = "<<-" in parts
        at = self.source.line.find(b"\n", start.end_byte) + 1
        begin = at
        while at:
            stop = self.source.line.find(b"\n", at)
            line = self.source.line[at : len(self.source.line) if stop < 0 else stop]
            if (line.lstrip(b"\t") if tabs else line) == word.encode():
                break
            at = stop + 1
        body = parts.get("heredoc_body")
        if not at or at + len(line) != end.end_byte or (body is not None and body.end_byte > end.start_byte):
            raise NotPlainError("a here-document ends elsewhere than it seems")
        if written == word:
            text = self.source.line[begin:at].decode()
            if "\\\n" in text:
                raise NotPlainError("a here-document joins lines")
            inner = body.children if body is not None else []
            covered = [child for child in inner if child.type != "heredoc_content"]
            self.words.no_other_expansion(begin, at, covered)
            for child in covered:
                self.words.expansion(child, depth)
        words: list[Word] = []
        for child in node.children:
            if child.type in {"<<", "<<-", "heredoc_start", "heredoc_body", "heredoc_end"}:
                continue
            if child.end_byte > begin:
                raise NotPlainError("what follows a here-document is not plain")
            if child.type in {"|", "&&", "||", ";"}:
                continue
            if child.type == "file_redirect":
                found, extra = self._redirect(child, depth)
                return found, extra
            self.statements(child, depth + 1)
        return [], words

    def _test(self, node: "Node", depth: int) -> None:
        """`[ … ]` and `[[ … ]]` as a command with its words."""
        if node.children[0].type not in {"[", "[["}:
            raise NotPlainError("arithmetic can run commands")
        words = [Word(node.children[0].type)]
        for part in self._test_parts(node):
            if part.type in LITERALS:
                words.append(self.words.read(part, depth))
            else:
                text = self.source.text(part)
                glob = part.type in {"regex", "extglob_pattern"}
                if glob and (EXPANDS.search(text) or ("(" in text and node.children[0].type == "[")):
                    raise NotPlainError("a pattern is not plain")
                if glob and re.search(r"[|&;<>\n]", bare := re.sub(r"\\.", "", text)) and "(" not in bare:
                    raise NotPlainError("a pattern holds what other shells take for the end of a command")
                words.append(Word(ANYTHING if glob else text))
        self.calls.append(Call(tuple(words)))

    def _test_parts(self, node: "Node") -> Iterator["Node"]:
        self.source.gaps(node, BLANKS if node.type != "test_command" else BLANKS_IN_LINE)
        for part in node.children:
            if part.type in {"binary_expression", "unary_expression", "parenthesized_expression"}:
                yield from self._test_parts(part)
            elif part.type in LITERALS | {"test_operator", "regex", "extglob_pattern"}:
                yield part
            elif part.is_named or part.type not in _TEST_TOKENS:
                raise NotPlainError(f"it holds syntax that is not judged ({part.type})")
            elif part.type not in {"[", "[[", "]", "]]"}:
                yield part

    def _for(self, node: "Node", depth: int) -> None:
        self.source.gaps(node, BLANKS)
        if node.children[0].type != "for":
            raise NotPlainError("`select` asks a person")
        for part in node.children:
            if part.type == "variable_name":
                self.calls.append(Call(assignments=(Assignment(self.source.name(part), None),)))
            elif part.type in LITERALS:
                value = self.words.read(part, depth)
                self.calls.append(Call(assignments=(Assignment("_", value, array=True),)))
            else:
                self.statements(part, depth + 1)

    def _case(self, node: "Node", depth: int) -> None:
        self.source.gaps(node, BLANKS)
        for part in node.children:
            if part.type == "extglob_pattern":
                if EXPANDS.search(self.source.text(part)):
                    raise NotPlainError("a pattern is not plain")
            elif part.type in LITERALS:
                self.words.read(part, depth)
            else:
                self.statements(part, depth + 1)

    def _comment(self, node: "Node") -> None:
        before = self.source.line[node.start_byte - 1 : node.start_byte]
        if (node.start_byte and before not in {b" ", b"\t", b"\n", b";"}) or "\n" in self.source.text(node):
            raise NotPlainError("a comment is not plain")


_RESERVED = names("if then else elif fi do done case esac while until for in function select coproc { } ! [[ ]]")
_TEST_TOKENS = names("[ [[ ] ]] ! && || ( ) = == != =~ < > -a -o")
