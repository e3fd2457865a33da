"""The corpora of command lines: one a line, or one JSON string a line where it needs what a text file can't hold."""

import json
from pathlib import Path

HERE = Path(__file__).parent


def hostile() -> tuple[str, ...]:
    """Lines that may change or leak something, or hide what they do."""
    plain = [line for line in (HERE / "hostile.txt").read_text("utf-8").split("\n") if line and line[:2] != "# "]
    return (*plain, *map(json.loads, (HERE / "hostile.jsonl").read_text("utf-8").splitlines()))


def benign() -> tuple[str, ...]:
    """Lines of daily work that only read."""
    return tuple((HERE / "benign.txt").read_text("utf-8").splitlines())
