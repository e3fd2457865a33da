"""A part of a large file is the same part that reading it whole would show."""

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harnessd.tools.files import LARGE, file_tools
from harnessd.tools.large import Survey, Window, revisit, stamp_of, survey
from harnessd.tools.looks import Text, look
from harnessd.tools.rooted import open_file
from harnessd.tools.seen import SURVEYS_KEPT, Seen
from tests.tools.a_session import a_context, a_home, text, use

READ, _, EDIT = file_tools()
units = st.lists(st.sampled_from(["a", "bc", "\n", "\r\n", "\r", "é", "\U0001f600", "long line " * 3, ""]), max_size=30)


def window(first: int, limit: int) -> Window:
    return Window(first, limit, room=60, width=20)


@given(
    units, st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]), st.integers(1, 12), st.integers(1, 9), st.integers(1, 7)
)
@settings(max_examples=250, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_h4_a_window_is_the_same_in_pieces_of_any_size(
    tmp_path: Path, parts: list[str], encoding: str, first: int, limit: int, size: int
) -> None:
    data = "".join(parts).encode(encoding)
    (tmp_path / "f").write_bytes(data)
    whole = look(data)
    assert isinstance(whole, Text)
    wanted = window(first, limit)
    wanted.take(whole.text)
    wanted.end()
    with open_file(str((tmp_path / "f").resolve()), at_most=10_000) as opened:
        assert opened is not None
        streamed = window(first, limit)
        found = survey(opened, streamed, size)
        assert isinstance(found, Survey)
        assert streamed.lines == wanted.lines
        assert found.lines == whole.text.count("\n") + (not whole.text.endswith("\n") and bool(whole.text))
        assert found.blob == Seen().note("f", data)
        again = window(first, limit)
        if found.marks:
            revisit(opened, found, again, size)
        assert again.lines == wanted.lines


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"text\n" * 1_000_000 + b"\0", "a binary file"),
        (b"\x89PNG\r\n\x1a\n\0" + b"x" * LARGE, "a PNG image"),
        (b"text\n" + b"\xff\xfe\xfa" * 2_000_000, "another encoding"),
    ],
)
async def test_a_large_file_that_is_no_text_is_named(tmp_path: Path, content: bytes, kind: str) -> None:
    home = a_home(tmp_path)
    (home.work / "it").write_bytes(content)
    outcome = await use(READ, a_context(home), path="work/it")
    assert outcome.status == "error"
    assert kind in text(outcome)


async def test_a_large_file_is_read_on_from_where_it_was_and_anew_if_it_changed(tmp_path: Path) -> None:
    home = a_home(tmp_path)
    context, place = a_context(home), home.work / "it"
    place.write_bytes(b"".join(b"line %d\n" % number for number in range(1, 800_001)))
    for offset in (1, 799_999, 5):
        assert text(await use(READ, context, path="work/it", offset=offset, limit=1)).startswith(f"line {offset}\n")
    with place.open("ab") as file:
        file.write(b"more")
    shown = text(await use(READ, context, path="work/it", offset=800_001))
    assert shown == "more\n[lines 800,001 to 800,001 of 800,001]"
    outcome = await use(EDIT, context, path="work/it", edits=[{"old": "\nmore", "new": ""}])
    assert outcome.status == "ok"
    place.write_bytes(place.read_bytes()[:-1] + b"!")
    outcome = await use(EDIT, context, path="work/it", edits=[{"old": "line 800000", "new": ""}])
    assert "changed since it was read" in text(outcome)


def test_a_survey_is_kept_while_the_file_stands_still(tmp_path: Path) -> None:
    seen, old = Seen(), time.time_ns() - 10**11
    paths = [f"/{number}" for number in range(SURVEYS_KEPT + 2)]
    for path in paths:
        seen.note_survey(path, Survey((1, 2, 3, old, old), path, 5, ()))
    assert [seen.survey(path, (1, 2, 3, old, old)) is not None for path in paths] == [False] * 2 + [True] * SURVEYS_KEPT
    assert [seen.version(path) for path in paths] == paths
    assert seen.survey(paths[-1], (1, 2, 3, old, old + 1)) is None
    (tmp_path / "new").touch()
    fresh = stamp_of((tmp_path / "new").stat())
    seen.note_survey("/new", Survey(fresh, "b", 5, ()))
    assert seen.survey("/new", fresh) is None  # it may change within the same tick of its clock
