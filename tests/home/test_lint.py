"""lint: each finding has a file, a line and a way to mend it; W3: secrets and hidden characters are found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessd.home.files_in_memory import FilesInMemory
from harnessd.home.hidden import find_hidden, strip_hidden
from harnessd.home.lint import lint_files
from harnessd.home.secrets import find_secrets

# Put together at run time, so that no scanner takes this file for a leak.
SECRETS = {
    "AWS access key": "AKIA" + "ABCDEFGHIJKLMNOP",
    "AWS secret key": "aws_secret_access_key = " + "a1B2" * 10,
    "GitHub token": "ghp_" + "a1B2" * 9,
    "GitLab token": "glpat-" + "a1B2" * 5,
    "Slack token": "xoxb-" + "1234567890-abcdef",
    "Slack webhook": "https://hooks.slack.com/services/" + "T00000000/B00000000/" + "a1B2" * 6,
    "Anthropic key": "sk-ant-" + "api03-" + "a1B2" * 8,
    "OpenAI key": "sk-" + "proj-" + "a1B2" * 8,
    "Google API key": "AIza" + "a1B2c" * 7,
    "Stripe key": "sk_live_" + "a1B2" * 5,
    "Hugging Face token": "hf_" + "a1B2" * 9,
    "npm token": "npm_" + "a1B2" * 9,
    "PyPI token": "pypi-AgE" + "a1B2" * 12,
    "private key": "-----BEGIN RSA " + "PRIVATE KEY-----",
    "JSON web token": "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0In0" + "." + "a1B2" * 6,
    "password in a URL": "postgres://bo:" + "hunter22@db.example/x",
    "Telegram bot token": "123456789:AA" + "a1B2c" * 6 + "xyz",
}


@pytest.mark.parametrize("kind", sorted(SECRETS))
@pytest.mark.parametrize("around", ["{}", 'key: "{}"', "KEY={}\n", "({}),", "`{}`"])
def test_w3_common_shapes_of_secrets_are_found_with_their_line(kind: str, around: str) -> None:
    text = "one\ntwo\n" + around.format(SECRETS[kind])
    assert (3, kind) in {(finding.line, finding.kind) for finding in find_secrets(text)}


@pytest.mark.parametrize(
    "text",
    [
        "task-management-for-the-whole-garden-team",
        "sk-learn is a library",
        "use ${OPENAI_API_KEY} or $TOKEN",
        "https://user:${PASSWORD}@host/",
        "https://host:8080/path@x",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "sk-learn-pipeline-for-the-whole-model",
        "risk-assessment-and-mitigation-planning",
        "-----BEGIN PUBLIC KEY-----",
        "mailto:bo@example.org",
        "run_01kbc3fqz-7h2m9xw",
    ],
)
def test_plain_text_is_no_secret(text: str) -> None:
    assert find_secrets(text) == ()


def test_w3_known_values_are_found_and_never_told() -> None:
    text = "a\nhunter2hunter2 x hunter2hunter2\n"
    found = find_secrets(text, ["hunter2hunter2", "", "a"])
    assert [(finding.line, finding.kind) for finding in found] == [(2, "value of the secret store")]
    assert "hunter2" not in repr(found)


@pytest.mark.parametrize(
    "character",
    ["\u202e", "\u2066", "\u200b", "\u2060", "\ufeff", "\u00ad", "\U000e0041", "\x1b", "\x85", "\u200d",
     "\ufe0f", "\u061c", "\u180e", "\ufff9", "\U000e0101", "\ud800"],
)  # fmt: skip
def test_w3_hidden_characters_are_found_and_stripped(character: str) -> None:
    text = f"one\nt{character}wo"
    found = find_hidden(text)
    assert [(hidden.line, hidden.column) for hidden in found] == [(2, 2)]
    assert f"U+{ord(character):04X}" in found[0].name
    assert strip_hidden(text) == "one\ntwo"


@pytest.mark.parametrize(
    "text",
    ["👩‍👩‍👧", "🏳️‍🌈", "❤️", "1️⃣", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
     "نمی‌خواهم", "क्‍ष", "tab\tand\r\nline", "葛\U000e0100", "naïve café"],
)  # fmt: skip
def test_what_a_script_or_an_emoji_needs_stays(text: str) -> None:
    assert find_hidden(text) == ()
    assert strip_hidden(text) == text


def test_w3_joiners_carry_no_message() -> None:
    assert len(find_hidden("é\u200d\u200c\u200d\u200dé")) >= 3
    assert len(find_hidden("😀\ufe0f\ufe0e\ufe0f\ufe0f")) == 3
    assert len(find_hidden("🏴\U000e0069\U000e0067\U000e006e\U000e007f")) == 4


@given(st.text(alphabet=st.sampled_from("aé\u200d\ufe0f😀\u202e\n\U000e0100字\U0001f3f4"), max_size=30))
def test_w3_stripping_is_complete(text: str) -> None:
    found = find_hidden(text)
    assert len(strip_hidden(text)) == len(text) - len(found)
    assert strip_hidden(text).count("\n") == text.count("\n")


def test_every_finding_has_a_place_and_a_way_to_mend_it() -> None:
    files = FilesInMemory(
        {
            "AGENTS.md": b"---\nmoed: plan\nmode: odd\n---\nAda\n",
            "MEMORY.md": b"- Bo likes tea\n- x\n- bo likes *tea*.\n",
            "users/bo/MEMORY.md": b"- a b\n- a b\n",
            "KNOWLEDGE.md": ("x\nkey " + SECRETS["GitHub token"]).encode(),
            "tools.json": b'{"a": {"command": "c", "odd": 1},}',
            "skills/vague/SKILL.md": b"---\nname: vague\ndescription: Tea.\n---\n" + b"line\n" * 600,
            "skills/evil/SKILL.md": "---\nname: evil\ndescription: Use when x\n---\na\u202eb".encode(),
            "subagents/s.md": b"Looks.\n",
        }
    )
    found = lint_files(files)
    assert {(problem.path, problem.line, problem.code) for problem in found} >= {
        ("AGENTS.md", 2, "unknown-key"),
        ("AGENTS.md", 3, "power-invalid"),
        ("MEMORY.md", 3, "memory-twice"),
        ("users/bo/MEMORY.md", 2, "memory-twice"),
        ("KNOWLEDGE.md", 2, "secret"),
        ("tools.json", 1, "json-comma"),
        ("tools.json", 1, "unknown-key"),
        ("skills/vague/SKILL.md", 1, "description-when"),
        ("skills/vague/SKILL.md", 500, "skill-long"),
        ("skills/evil/SKILL.md", 5, "hidden-characters"),
        ("subagents/s.md", 1, "no-name"),
    }
    for problem in found:
        assert problem.path in files.blobs
        assert problem.message
        assert problem.fix
    assert list(found) == sorted(found, key=lambda problem: (problem.path, problem.line))
    assert found == lint_files(files)
    assert SECRETS["GitHub token"] not in "".join(map(str, found))


def test_a_clean_home_has_no_findings() -> None:
    files = FilesInMemory(
        {
            "AGENTS.md": b"---\nname: ada\ndescription: A gardener\n---\nYou are Ada.\n",
            "skills/tea/SKILL.md": b"---\nname: tea\ndescription: Makes tea. Use when asked, not else.\n---\nBoil.\n",
            "tools.json": b"{}\n",
        }
    )
    assert lint_files(files) == ()


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("AGENTS.md", b"---\nschedule:\n- {name: x, cron: '0 9 * * *', prompt: go}\n---\nYou are Ada.\n"),
        ("graphs/plan.yaml", b"nodes: []\n"),
    ],
)
def test_what_is_declared_and_not_run_yet_is_told(path: str, content: bytes) -> None:
    files = FilesInMemory({"AGENTS.md": b"You are Ada.\n", path: content})
    assert [problem.code for problem in lint_files(files) if problem.code == "not-run-yet"] == ["not-run-yet"]
