"""Entries of MEMORY.md: added and removed without touching another byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessd.home.memory import (
    NoSuchEntry,
    add_entry,
    find_duplicate,
    normalised,
    parse_memory,
    remove_entry,
)

MEMORY = """\
# Memory

Some prose.

## Family

- Bo is a **vegetarian**
- Cy
  lives in Rome
  - since 2020

  and likes it

## Work
* uses vim

text after
"""


def texts(text: str) -> list[str]:
    return [entry.text for entry in parse_memory(text)]


def test_entries_know_their_headings_and_lines() -> None:
    entries = parse_memory(MEMORY)
    assert [(entry.text, entry.line, entry.end_line, entry.depth) for entry in entries] == [
        ("Bo is a **vegetarian**", 7, 7, 1),
        ("Cy lives in Rome", 8, 12, 1),
        ("since 2020", 10, 10, 2),
        ("uses vim", 15, 15, 1),
    ]
    assert entries[0].headings == ("Memory", "Family")


@pytest.mark.parametrize(
    ("text", "heading", "expected"),
    [
        ("", None, "- new\n"),
        ("- a\n", None, "- a\n- new\n"),
        ("- a", None, "- a\n- new"),
        ("- a\r\n", None, "- a\r\n- new\r\n"),
        ("- a\r\n- b", None, "- a\r\n- b\r\n- new"),
        ("* a\n\n\n", None, "* a\n* new\n\n\n"),
        ("text\n", None, "text\n\n- new\n"),
        ("# H\n", None, "# H\n\n- new\n"),
        ("# H\n- a\n\ntext", "H", "# H\n- a\n- new\n\ntext"),
        ("# H\n\n# I\n- b\n", "h", "# H\n\n- new\n\n# I\n- b\n"),
        ("# H\n- a\n# I\n- b\n", "H", "# H\n- a\n- new\n\n# I\n- b\n"),
        ("- a\n", "Work", "- a\n\n## Work\n\n- new\n"),
        ("- a", "Work", "- a\n\n## Work\n\n- new"),
        ("", "Work", "## Work\n\n- new\n"),
        ("```\nopen fence\n", None, "- new\n\n```\nopen fence\n"),
        ("<!-- open\n", None, "- new\n\n<!-- open\n"),
        ("1. a\n2. b\n", None, "1. a\n2. b\n- new\n"),
        ("- a\n  - b\n", None, "- a\n  - b\n- new\n"),
    ],
)
def test_add_is_one_insertion(text: str, heading: str | None, expected: str) -> None:
    assert add_entry(text, "new", heading) == expected


@pytest.mark.parametrize(
    ("match", "gone"),
    [
        ("Bo is a vegetarian", "- Bo is a **vegetarian**\n"),
        ("vegetarian", "- Bo is a **vegetarian**\n"),
        ("since 2020", "  - since 2020\n"),
        ("USES VIM.", "* uses vim\n"),
        ("Cy lives in Rome", "- Cy\n  lives in Rome\n  - since 2020\n\n  and likes it\n"),
    ],
)
def test_remove_takes_the_entry_and_nothing_else(match: str, gone: str) -> None:
    for text, lost in ((MEMORY, gone), (MEMORY.replace("\n", "\r\n"), gone.replace("\n", "\r\n"))):
        assert remove_entry(text, match) == text.replace(lost, "", 1)


def test_remove_refuses_to_guess() -> None:
    text = "- likes tea\n- likes coffee\n"
    assert remove_entry(text, "likes") == NoSuchEntry("likes", ("likes tea", "likes coffee"))
    assert remove_entry(text, "milk") == NoSuchEntry("milk")
    assert remove_entry(text, "") == NoSuchEntry("")
    assert remove_entry("- likes tea\n- Likes tea.\n- x\n", "likes tea") == "- x\n"


def test_w5_the_same_fact_is_not_added_twice() -> None:
    text = "- Bo likes *tea*.\n"
    for same in ("Bo likes tea", "bo likes  tea!", "- Bo likes tea", "“Bo” likes tea."):
        assert add_entry(text, same) == text
        assert find_duplicate(text, same)
    assert add_entry(text, "Bo likes tea 2") != text
    assert normalised("C++") != normalised("C")


@pytest.mark.parametrize("empty", ["", "  ", "-", "\n", "..."])
def test_an_entry_needs_text(empty: str) -> None:
    with pytest.raises(ValueError, match="text"):
        add_entry("", empty)


@pytest.mark.parametrize(
    "fact",
    [
        "# no heading",
        "> no quote",
        "```no fence",
        "1. one",
        "- - x",
        "=== x",
        "<b>x",
        "[a]: b",
        "a\nb",
        "+ + y",
    ],
)
def test_a_fact_that_looks_like_markdown_is_one_entry(fact: str) -> None:
    text = add_entry("- a\n", fact)
    assert len(texts(text)) == 2
    assert text.startswith("- a\n- ")


lines = st.lists(
    st.sampled_from(["- a", "- b c", "  - d", "# H", "## I", "", "text", "```", "> q", "1. n", "<!-- x -->", "***"])
)


@given(lines, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.sampled_from([None, "H", "I", "New"]))
def test_add_keeps_every_byte_and_every_entry(parts: list[str], newline: str, final: bool, heading: str | None) -> None:
    text = newline.join(parts) + (newline if final else "")
    added = add_entry(text, "fresh fact", heading)
    assert sorted(texts(added)) == sorted([*texts(text), "fresh fact"])
    start = 0
    while start < len(text) and text[start] == added[start]:
        start += 1
    rest = text[start:]
    assert added.endswith(rest)
    assert remove_entry(added, "fresh fact") != added


@given(lines, st.sampled_from(["\n", "\r\n"]))
def test_remove_only_takes_lines_away(parts: list[str], newline: str) -> None:
    text = newline.join(parts)
    for entry in parse_memory(text):
        left = remove_entry(text, entry.text)
        if isinstance(left, str):
            assert len(left) < len(text)
