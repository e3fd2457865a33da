"""W3: what the operator reads is one JSON object a line, whatever is in it, and never a secret."""

import io
import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessd.daemon.operator_log import LONGEST, operator_log
from harnessd.daemon.redaction import redactor

SECRET = 's3cret-välue"with\\marks'
LOG = logging.getLogger("harnessd.tests")


def lines(out: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


@given(text=st.text(max_size=50))
def test_a_line_is_one_object_whatever_is_told(text: str) -> None:
    out = io.StringIO()
    with operator_log("info", out, redactor(())):
        LOG.info("%s", text, extra={"where": text, "odd": object()})
    [line] = lines(out)
    assert line["message"] == text
    assert line["where"] == text
    assert line["level"] == "info"


def test_w3_no_secret_is_logged_in_a_message_a_field_or_a_trace() -> None:
    out = io.StringIO()
    with operator_log("debug", out, redactor((SECRET,))):
        LOG.info("it is %s", SECRET, extra={"field": SECRET, "deep": {"in": [SECRET]}})
        try:
            raise ValueError(SECRET)
        except ValueError:
            LOG.exception("broke")
    assert SECRET not in out.getvalue()
    assert all(SECRET not in str(line) for line in lines(out))
    assert [line["message"] for line in lines(out)] == ["it is [redacted]", "broke"]
    assert "ValueError" in str(lines(out)[1]["error"])


@pytest.mark.parametrize(("level", "told"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_the_level_counts_for_our_own_records(level: str, told: int) -> None:
    out = io.StringIO()
    with operator_log(level, out, redactor(())):
        for word in ("debug", "info", "warning", "error"):
            getattr(LOG, word)(word)
    LOG.error("after the end")
    assert len(lines(out)) == told


def test_a_long_text_is_cut_and_says_so() -> None:
    out = io.StringIO()
    with operator_log("info", out, redactor(())):
        LOG.info("x" * (LONGEST + 5))
    assert str(lines(out)[0]["message"]).endswith("(5 characters more)")
