"""F3: in a whole run, what permits an effect is on disk before the effect, and what happened before anyone is told.

A killed process can't show a missing sync, so the system calls are looked at, in their order.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.journal.desk import ROOT
from tests.journal.traced_run import EFFECT

CALLS = "pwrite64,fdatasync,fsync,write,rename,renameat,renameat2,openat,link,linkat"
RECORD = re.compile(
    r'\{\\"crc\\":\\"[0-9a-f]{8}\\",\\"seq\\":(\d+),\\"v\\":1,\\"at\\":\\"[^"]*?\\",\\"type\\":\\"([a-z._]+)'
)


@dataclass(frozen=True)
class Moment:
    """A system call begins or returns; `text` is its line, `target` the file its first argument names."""

    begins: bool
    name: str
    target: str
    text: str


@pytest.fixture(scope="module")
def moments(tmp_path_factory: pytest.TempPathFactory) -> list[Moment]:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed; with it the order of the system calls is checked")
    base = tmp_path_factory.mktemp("traced")
    command = [strace, "-f", "-y", "-s", "200000", "-e", f"trace={CALLS}", "-o", str(base / "trace")]
    ran = subprocess.run(
        [*command, sys.executable, "-m", "tests.journal.traced_run", str(base / "run")],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "HOME": str(base), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
        timeout=100,
    )
    if "ptrace" in ran.stderr.decode() and ran.returncode:
        pytest.skip(f"strace may not trace here: {ran.stderr.decode().strip()}")
    assert ran.returncode == 0, ran.stderr.decode()
    return list(_moments((base / "trace").read_text()))


def test_f3_a_control_is_answered_and_an_event_told_only_when_it_is_on_disk(moments: list[Moment]) -> None:
    said: list[str] = []
    for moment, durable in _with_durable(moments):
        if moment.begins and moment.name == "write" and (told := re.search(r'"(answered|told) (\d+)\\n"', moment.text)):
            assert int(told[2]) in durable, moment.text
            said.append(told[1])
    assert said.count("answered") == 2
    assert said.count("told") > 20


def test_f3_decision_and_intent_are_on_disk_before_the_effect_and_it_happens_once(moments: list[Moment]) -> None:
    effects = 0
    for moment, durable in _with_durable(moments):
        made = moment.name in {"link", "linkat", "rename", "renameat", "renameat2"} or "O_CREAT" in moment.text
        if moment.begins and made and f'{EFFECT}"' in moment.text:
            effects += 1
            assert {"tool.approval_required", "tool.approval_resolved"} <= set(durable.values())
            assert list(durable.values()).count("tool.call.running") == 3, "the writer's and the two readers' before it"
            assert list(durable.values()).count("tool.call.completed") == 2
    assert effects == 1


def test_f3_a_stored_result_is_on_disk_with_its_name_before_the_fact_that_refers_to_it(moments: list[Moment]) -> None:
    synced: list[str] = []
    facts = 0
    for moment in moments:
        if not moment.begins and moment.name == "fsync":
            synced.append(moment.target)
        if moment.begins and moment.name == "pwrite64" and "tool.result.evicted" in _records(moment).values():
            facts += 1
            (file,) = [target for target in synced if re.search(r"/evicted/[^/]+/call_[^/]+\.txt$", target)]
            after = synced[synced.index(file) :]
            assert str(Path(file).parent) in after, "the file's name is synced as well"
            folder = Path(file).parent
            assert str(folder.parent) in synced, "and so is that of its folder"
    assert facts == 1


def test_f3_the_journal_is_written_by_one_thread_and_each_write_is_followed_by_its_sync(moments: list[Moment]) -> None:
    on_journal = [moment for moment in moments if moment.target.endswith(".jsonl") and not moment.begins]
    names = [moment.name for moment in on_journal if moment.name in {"pwrite64", "fdatasync"}]
    assert names
    assert names == ["pwrite64", "fdatasync"] * (len(names) // 2)


def _with_durable(moments: list[Moment]) -> Iterator[tuple[Moment, dict[int, str]]]:
    """Each moment with what is on disk by then: seq → type."""
    written: dict[int, str] = {}
    durable: dict[int, str] = {}
    for moment in moments:
        if moment.name == "pwrite64" and moment.begins:
            written |= _records(moment)
        elif moment.name == "fdatasync" and not moment.begins:
            durable |= written
        yield moment, durable


def _records(moment: Moment) -> dict[int, str]:
    return {int(seq): kind for seq, kind in RECORD.findall(moment.text)} if moment.target.endswith(".jsonl") else {}


def _moments(trace: str) -> Iterator[Moment]:
    """Beginning and return of each call; one that no other interrupted has both at once."""
    begun: dict[str, Moment] = {}
    for line in trace.splitlines():
        pid, _, rest = line.partition(" ")
        rest = rest.strip()
        if match := re.match(r"(\w+)\((?:(?:AT_FDCWD|\d+)<([^>]*)>)?", rest):
            moment = Moment(True, match[1], match[2] or "", rest)
            yield moment
            if rest.endswith("<unfinished ...>"):
                begun[pid] = moment
            else:
                yield Moment(False, moment.name, moment.target, rest)
        elif rest.startswith("<... ") and pid in begun:
            moment = begun.pop(pid)
            yield Moment(False, moment.name, moment.target, moment.text)
