"""W3: what may become the next version of a definition file."""

import pytest

from harnessd.home.acceptance import acceptable

PATHS = ["MEMORY.md", "users/bo/MEMORY.md", "AGENTS.md", "KNOWLEDGE.md", "skills/tea/SKILL.md", "subagents/tea.md"]
ENTRY = "---\nname: tea\ndescription: Makes tea. Use when asked.\n---\n- {}\n"


@pytest.mark.parametrize("path", PATHS)
def test_w3_plain_text_is_accepted(path: str) -> None:
    assert acceptable(path, ENTRY.format("Boil water.").encode(), None) == ()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("character", ["\u202e", "\U000e0041", "\u200b", "\x1b"])
def test_w3_hidden_characters_are_refused_in_every_file(path: str, character: str) -> None:
    raw = ENTRY.format(f"Boil{character} water.").encode()
    assert [(problem.code, problem.line, problem.severity) for problem in acceptable(path, raw, None)] == [
        ("hidden-characters", 5, "error")
    ]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("secret", ["ghp_" + "a1B2" * 9, "value-of-the-store"])
def test_w3_secrets_are_refused_in_every_file_with_their_line(path: str, secret: str) -> None:
    raw = ENTRY.format(secret).encode()
    found = acceptable(path, raw, None, ["value-of-the-store"])
    assert [(problem.code, problem.line) for problem in found] == [("secret", 5)]
    assert secret not in str(found)


def test_w3_hidden_characters_do_not_hide_a_secret() -> None:
    token = "ghp_" + "a1B2" * 4 + "\u200b" + "a1B2" * 5
    codes = {problem.code for problem in acceptable("MEMORY.md", f"- {token}\n".encode(), None)}
    assert codes == {"secret", "hidden-characters"}


@pytest.mark.parametrize("path", ["MEMORY.md", "users/bo/MEMORY.md"])
def test_w5_a_memory_may_lose_its_last_fact_and_not_all_at_once(path: str) -> None:
    assert acceptable(path, b"", b"- the only fact\n") == ()
    assert [problem.code for problem in acceptable(path, b"", b"- one\n- two\n")] == ["emptied"]
    assert [problem.code for problem in acceptable("AGENTS.md", b"", b"- one\n")] == ["emptied"]
