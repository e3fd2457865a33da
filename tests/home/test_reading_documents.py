"""H3: one table of odd files, one outcome a row, the same for skills, subagents and context files."""

import time
import tracemalloc
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessd.home.document import first_paragraph, read_document
from harnessd.home.files_in_memory import FilesInMemory
from harnessd.home.reader import DefinitionReader
from harnessd.home.skills import is_skill_path, read_skill
from harnessd.home.subagents import BUILT_IN_TOOLS, read_subagent, resolve_tools

CASES = Path(__file__).parent / "cases"


def case(path: str) -> bytes:
    return (CASES / path).read_bytes()


# path → name, title, description, body, problem codes
SKILLS = [
    ("colon/SKILL.md", "colon", "colon",
     "Tidies a changelog. Use when: a release is due, never for drafts", "# Tidy\nSort the entries.",
     {"header-not-yaml"}),
    ("bom/SKILL.md", "bom", "bom", "Has a byte order mark. Use for tests.", "Body é.", set()),
    ("crlf/SKILL.md", "crlf", "crlf", "Windows line ends. Use for tests.", "First\nSecond", set()),
    ("utf16/SKILL.md", "utf16", "utf16", "Saved by an old editor. Use for tests.", "Körper", {"utf-16"}),
    ("no-front-matter/SKILL.md", "no-front-matter", "no-front-matter",
     "Collects the week into one page. Use it on Fridays.", None, {"no-name", "no-description"}),
    ("unclosed/SKILL.md", "unclosed", "unclosed", "The second fence is missing. Use for tests.",
     "# Steps\nOne.", {"header-unclosed"}),
    ("dashes-inside/SKILL.md", "dashes-inside", "dashes-inside",
     "cut --- here. Use when a value holds three dashes.", "Above\n\n---\n\nBelow", set()),
    ("Wrong_Name/SKILL.md", "wrong-name", "Right Name", "Name and folder differ. Use for tests.", "Body",
     {"name-differs"}),
    ("bool-name/SKILL.md", "bool-name", "on", "1.10", "Body", {"name-differs"}),
    ("flow-then-text/SKILL.md", "flow-then-text", "flow-then-text",
     "Argument hint is not YAML. Use for tests.",
     "Body", {"header-not-yaml"}),
    ("long-block/SKILL.md", "long-block", "long-block",
     'Reviews a diff for risk. Examples:\nContext: a pull request arrives\nuser: "is this safe?"\n'
     'assistant: "I will use long-block"', "Body", {"header-not-yaml"}),
    ("template-braces/SKILL.md", "template-braces", "template-braces",
     "First paragraph says what it does. Use for tests.", None, {"header-key", "no-description"}),
    ("at-sign/SKILL.md", "at-sign", "at-sign",
     "@team reads this. Use for tests.", "Body", {"header-not-yaml"}),
    ("duplicate-keys/SKILL.md", "duplicate-keys", "duplicate-keys", "second. Use for tests.", "Body",
     {"duplicate-key"}),
    ("alias-bomb/SKILL.md", "alias-bomb", "alias-bomb", "Anchors must not expand. Use for tests.", "Body",
     {"yaml-alias"}),
    ("tab-indent/SKILL.md", "tab-indent", "tab-indent", "A tab in the header. Use for tests.", "Body",
     {"header-not-yaml"}),
    ("nul/SKILL.md", "nul", "nul", "Holds a NUL. Use for tests.", "Bo\ufffddy", {"nul"}),
    ("latin1/SKILL.md", "latin1", "latin1", "Caf\ufffd in latin-1. Use for tests.", "Body", {"undecodable"}),
    ("hidden-text/SKILL.md", "hidden-text", "hidden-text",
     "Carries tag characters. Use for tests.", "Visible.",
     {"hidden-characters"}),
    ("flat-skill.md", "flat-skill", "flat-skill",
     "The flat form of the origin. Use for tests.", "Body", set()),
    ("lowercase/skill.md", "lowercase", "lowercase",
     "File name in lower case. Use for tests.", "Body", set()),
    ("技能/SKILL.md", "技能", "技能", "名称不是拉丁字母。需要测试时使用。", "正文", set()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "name", "title", "description", "body", "codes"), SKILLS, ids=[row[0] for row in SKILLS]
)
def test_h3_skill_cases(path: str, name: str, title: str, description: str, body: str | None, codes: set[str]) -> None:
    skill, problems = read_skill(case(f"skills/{path}"), f"skills/{path}")
    assert skill
    assert (skill.name, skill.title, skill.description) == (name, title, description)
    if body is not None:
        assert skill.body == body
    assert {problem.code for problem in problems} == codes
    for problem in problems:
        assert problem.path == f"skills/{path}"
        assert problem.message
        assert problem.fix


def test_h3_every_skill_case_is_in_the_table() -> None:
    present = {str(path.relative_to(CASES / "skills")) for path in (CASES / "skills").rglob("*.md")}
    assert present == {row[0] for row in SKILLS} | {"empty/SKILL.md"}


def test_h3_empty_skill_is_not_offered_but_reported() -> None:
    skill, problems = read_skill(case("skills/empty/SKILL.md"), "skills/empty/SKILL.md")
    assert skill is None
    assert [problem.code for problem in problems] == ["empty"]


def test_h3_skill_tools_and_version_stay_text() -> None:
    skill, _ = read_skill(case("skills/flow-then-text/SKILL.md"), "skills/flow-then-text/SKILL.md")
    assert skill
    assert skill.allowed_tools == ("Read", "execute(git log:*)", "Write")
    skill, _ = read_skill(case("skills/long-block/SKILL.md"), "skills/long-block/SKILL.md")
    assert skill
    assert skill.allowed_tools == ("read", "execute")
    assert read_document(case("skills/bool-name/SKILL.md"), "x").header["version"] == "1.10"


def test_h3_problems_name_the_line() -> None:
    _, problems = read_skill(case("skills/colon/SKILL.md"), "skills/colon/SKILL.md")
    assert [(problem.line, problem.column) for problem in problems] == [(3, 42)]
    _, problems = read_skill(case("skills/tab-indent/SKILL.md"), "skills/tab-indent/SKILL.md")
    assert [problem.line for problem in problems] == [5]


def test_h3_alias_bomb_is_cheap() -> None:
    levels = [f"l{n}: &l{n} [{','.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 60)]
    raw = "\n".join(["---", "name: bomb", "l0: &l0 [x]", *levels, "---", "Body"]).encode()
    read_document(raw, "x")
    tracemalloc.start()
    started = time.process_time()
    document = read_document(raw, "x")
    spent = time.process_time() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert document.header["name"] == "bomb"
    assert len(repr(document.header)) < 10_000
    assert spent < 0.2  # traced; 50 ms without
    assert peak < 10_000_000


def test_h3_subagent_cases() -> None:
    read = {
        path.stem: read_subagent(path.read_bytes(), f"subagents/{path.name}")
        for path in (CASES / "subagents").iterdir()
    }
    star, _ = read["star-tools"]
    assert star
    assert resolve_tools(star.settings, ("read", "mcp__a__b")) == ("read", "mcp__a__b")
    unknown, _ = read["unknown-tools"]
    assert unknown
    problem = resolve_tools(unknown.settings, BUILT_IN_TOOLS)
    assert not isinstance(problem, tuple)
    assert "Frobnicate" in problem.message
    assert "Zap" in problem.message
    foreign, problems = read["foreign-model"]
    assert foreign
    assert foreign.settings.model is None
    assert resolve_tools(foreign.settings, BUILT_IN_TOOLS) == ("read", "execute")
    assert {"foreign-model"} <= {problem.code for problem in problems}
    nameless, problems = read["nameless"]
    assert nameless
    assert nameless.name == "nameless"
    assert [problem.code for problem in problems] == ["no-name"]


def test_h3_a_subagent_without_any_tool_is_reported_and_not_offered() -> None:
    files = FilesInMemory({"AGENTS.md": b"Ada", "subagents/u.md": case("subagents/unknown-tools.md")})
    definition = DefinitionReader().read(files)
    assert definition.subagents == ()
    assert [problem.path for problem in definition.problems if problem.code == "no-tools"] == ["subagents/u.md"]


def header(text: str) -> dict[str, object]:
    return dict(read_document(f"---\n{text}\n---\nBody".encode("utf-8", "surrogatepass"), "x").header)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("name: NO", {"name": "NO"}),
        ("name: 2026-01-01", {"name": "2026-01-01"}),
        ("name: 12:30:45", {"name": "12:30:45"}),
        ("name: =", {"name": "="}),
        ("name: 0x1F", {"name": "0x1F"}),
        ("name: 1_000", {"name": "1_000"}),
        ("name: .inf", {"name": ".inf"}),
        ("name: ~", {"name": None}),
        ("name:", {"name": None}),
        ("name: null", {"name": None}),
        ('name: "null"', {"name": "null"}),
        ("name: !!python/object:os.system x", {"name": "x"}),
        ("name: !!binary aGk=", {"name": "aGk="}),
        ("tools: *", {"tools": "*"}),
        ("tools: [*]", {"tools": ["*"]}),
        ("allowed-tools: *  # all", {"allowed-tools": "*"}),
        ("<<: {name: x}", {"<<": {"name": "x"}}),
        ("description: `code` first", {"description": "`code` first"}),
        ("description: 100% sure", {"description": "100% sure"}),
        ("description: %d of them", {"description": "%d of them"}),
        ("description: a # b", {"description": "a"}),
        ('metadata: {"a": {"b": 1,}', {"metadata": '{"a": {"b": 1,}'}),
        ("name: x\n# only a comment", {"name": "x"}),
        ("name: x\n...\ntail: y", {"name": "x", "tail": "y"}),
    ],
)  # fmt: skip
def test_h3_values_mean_what_was_typed(text: str, values: dict[str, object]) -> None:
    assert header(text) == values


def test_h3_star_is_no_repair() -> None:
    assert read_document(b"---\ntools: *\n---\n", "x").strict


@pytest.mark.parametrize(
    "text",
    [
        "description: a: b",
        "a: *b",
        "x: &a [1]\ny: *a",
        "name: a\nname: b",
        "? [a]\n: b",
        "name: !!str x",
        "\tname: x",
    ],
)
def test_h3_what_needed_repair_is_not_strict(text: str) -> None:
    document = read_document(f"---\n{text}\n---\nBody".encode(), "x")
    assert not document.strict
    assert document.problems


def test_h3_dialogue_that_runs_on_belongs_to_the_description() -> None:
    text = (
        "name: reviewer\n"
        "description: Use this agent when code was written. Examples:\n"
        "Context: the user wrote a function\n"
        'user: "done"\n'
        "<example>\n"
        'assistant: "I will review: it"\n'
        "</example>\n"
        "model: opus\n"
        "custom-key: 1"
    )
    values = header(text)
    assert list(values) == ["name", "description", "model", "custom-key"]
    assert str(values["description"]).count("\n") == 5


def test_h3_nested_brackets_end_fast() -> None:
    for shape in ("[" * 5000, "{a: " * 5000, "- " * 5000, "[" * 5000 + "]" * 5000):
        started = time.process_time()
        values = header(f"name: deep\nx: {shape}")
        assert time.process_time() - started < 0.5
        assert values["name"] == "deep"


def test_h3_header_has_a_cap_and_says_so() -> None:
    filler = "\n".join(f"key{n}: value" for n in range(8000))
    document = read_document(f"---\nname: big\n{filler}\n---\nBody".encode(), "x")
    assert document.header["name"] == "big"
    assert document.body == "Body"
    assert not document.strict
    assert "header-too-long" in {problem.code for problem in document.problems}


@pytest.mark.parametrize(
    ("raw", "body", "code"),
    [
        (b"\n\n---\nname: a\n---\nBody", "Body", "header-not-first"),
        (b"---\njust text\n---\nmore", "---\njust text\n---\nmore", "header-not-keys"),
        (b"---\n\nA rule on top.\n", "---\n\nA rule on top.\n", None),
        (b"---\n---\nBody", "Body", None),
        (b"--- \t\nname: a\n---  \nBody", "Body", None),
        (b"---\rname: a\r---\rBody", "Body", None),
        (b"Bo\x85dy \xc2\x85", "Bo\ufffddy ", "undecodable"),
        (b"a\xc2\x85b", "ab", "hidden-characters"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd", "undecodable"),
        ("a\u202eb".encode(), "ab", "hidden-characters"),
        ("\ufeffa\ufeffb".encode(), "ab", "hidden-characters"),
        (b"", "", None),
        (b"   \n", "   \n", None),
        (b"\xff\xfe", "", "utf-16"),
        ("---\nname: a\n---\nBody".encode("utf-16-be").join([b"\xfe\xff", b""]), "Body", "utf-16"),
        (b"\xff\xfea", "\ufffd", "undecodable"),
    ],
)  # fmt: skip
def test_h3_odd_shapes(raw: bytes, body: str, code: str | None) -> None:
    document = read_document(raw, "x")
    assert document.body == body
    codes = {problem.code for problem in document.problems}
    assert code in codes if code else not codes


def test_h3_one_reader_for_all_kinds_of_files() -> None:
    raw = b"\xef\xbb\xbf---\r\ndescription: When: it rains\r\n---\r\nBody\r\n"
    files = FilesInMemory({"AGENTS.md": raw, "KNOWLEDGE.md": raw, "skills/a/SKILL.md": raw, "subagents/b.md": raw})
    definition = DefinitionReader().read(files)
    assert definition.agents.body == "Body\n"
    assert definition.knowledge == "Body\n"
    assert definition.skills[0].body == "Body"
    assert definition.subagents[0].prompt == "Body"
    assert (
        definition.settings.description,
        definition.skills[0].description,
        definition.subagents[0].description,
    ) == ("When: it rains",) * 3
    for path in files.blobs:
        assert "header-not-yaml" in {problem.code for problem in definition.problems if problem.path == path}


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("Tea", "tea"),
        ("tea time", "tea-time"),
        ("Straße", "strasse"),
        (unicodedata.normalize("NFD", "Café"), "café"),
        (unicodedata.normalize("NFC", "Café"), "café"),
        ("hi🚀", "hi"),
        ("データ", "データ"),
    ],
)
def test_h3_names_have_one_callable_form(folder: str, name: str) -> None:
    skill, _ = read_skill(b"---\nname: x\ndescription: Use when y\n---\n", f"skills/{folder}/SKILL.md")
    assert skill
    assert skill.name == name


def test_h3_emoji_names_are_callable_and_distinct() -> None:
    files = FilesInMemory(
        {f"skills/{name}/SKILL.md": f"---\nname: {name}\ndescription: Use when x\n---\nB".encode() for name in "🚀🍵"}
    )
    skills = DefinitionReader().read(files).skills
    assert len({skill.name for skill in skills}) == 2
    assert {skill.title for skill in skills} == {"🚀", "🍵"}


def test_h3_unreadable_file_is_reported() -> None:
    class Unreadable(FilesInMemory):
        def load(self, path: str) -> bytes:
            if path == "skills/a/SKILL.md":
                raise PermissionError(13, "Permission denied")
            return super().load(path)

    definition = DefinitionReader().read(Unreadable({"AGENTS.md": b"Ada", "skills/a/SKILL.md": b"x"}))
    assert [problem.code for problem in definition.problems] == ["unreadable"]
    assert definition.agents.body == "Ada"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("skills/a/SKILL.md", True),
        ("skills/a/skill.md", True),
        ("skills/a.md", True),
        ("skills/a/b/SKILL.md", True),
        ("skills/README.md", False),
        ("skills/a/references/x.md", False),
        ("SKILL.md", False),
        ("skills/a/b/c/d/e/SKILL.md", False),
    ],
)
def test_h3_which_files_are_skills(path: str, expected: bool) -> None:
    assert is_skill_path(path) is expected


def test_h3_first_paragraph_passes_over_what_is_no_prose() -> None:
    assert first_paragraph("<!-- x -->\n# T\n\n---\n```\ncode\n```\nOne\ntwo\n\nthree") == "One two"
    assert first_paragraph("# only\n") == ""


@given(st.binary(max_size=400))
def test_h3_any_bytes_read_the_same_twice(raw: bytes) -> None:
    assert read_document(raw, "x") == read_document(raw, "x")
    read_skill(raw, "skills/a/SKILL.md")
    read_subagent(raw, "subagents/a.md")


yaml_like = st.text(
    alphabet=st.sampled_from("---\n\n\n: :ab,[]{}&*!|>'\"%@`#?~\t\u202e\ud800\x85\u2028é"), max_size=120
)


@given(yaml_like)
def test_h3_any_header_is_read_and_keeps_its_body(text: str) -> None:
    raw = f"---\n{text}\n---\nBody".encode("utf-8", "replace")
    document = read_document(raw, "x")
    assert document == read_document(raw, "x")
    assert document.body.endswith("Body")
