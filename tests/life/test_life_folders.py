"""P5, F9, O2: what the daemon keeps in its state directory: locks, token, starts, where it is."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessd.daemon.hold import Hold
from harnessd.daemon.starts import Starts, begin, read_starts, write_starts
from harnessd.daemon.token import find_token, make_token
from harnessd.daemon.whereabouts import Whereabouts, find_daemon, remove_whereabouts, write_whereabouts
from harnessd.errors import Locked, StorageError, UsageError

TOKEN = "a-token-of-thirty-two-characters"


def test_o2_both_folders_are_made_and_belong_to_one(tmp_path: Path) -> None:
    state, homes, others = tmp_path / "a" / "state", tmp_path / "b" / "homes", tmp_path / "c" / "homes"
    with Hold(state, homes):
        assert stat.S_IMODE(state.stat().st_mode) == 0o700
        for there in ((state, homes), (state, others), (tmp_path / "else", homes)):
            with pytest.raises(Locked, match=f"process {os.getpid()}"):
                Hold(*there, patience=0)
        with Hold(tmp_path / "else", others, patience=0):
            pass
    with Hold(state, homes, patience=0):
        pass


@pytest.mark.parametrize("left", [b"", b"1\n", b"99999999\n", b"\xff" * 100, b"no pid"])
def test_o2_what_a_former_lock_holds_is_in_nobodys_way(tmp_path: Path, left: bytes) -> None:
    with Hold(tmp_path, tmp_path / "homes"):
        pass
    (tmp_path / "daemon.lock").write_bytes(left)
    with Hold(tmp_path, tmp_path / "homes", patience=0):
        assert (tmp_path / "daemon.lock").read_text() == f"{os.getpid()}\n"


def a_file(path: Path) -> None:
    path.write_text("x")


def a_link_to_nowhere(path: Path) -> None:
    path.symlink_to("nowhere")


def a_locked_link(path: Path) -> None:
    path.mkdir()
    for name in ("daemon.lock", ".daemon.lock"):
        (path / name).symlink_to("elsewhere")


@pytest.mark.parametrize("folder", ["state", "homes"])
@pytest.mark.parametrize("spoil", [a_file, a_link_to_nowhere, a_locked_link])
def test_f9_a_folder_that_cannot_be_had_is_named(tmp_path: Path, folder: str, spoil: Callable[[Path], None]) -> None:
    spoil(tmp_path / folder)
    with pytest.raises(StorageError) as refused:
        Hold(tmp_path / "state", tmp_path / "homes", patience=0)
    assert refused.value.where
    assert refused.value.where.startswith(str(tmp_path / folder))
    assert refused.value.hint
    if folder == "state":
        with Hold(tmp_path / "well", tmp_path / "homes", patience=0):
            pass  # nothing stays held by what was refused


def test_p5_a_token_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    assert find_token(tmp_path, {}) is None
    made = make_token(tmp_path, {})
    assert len(made) >= 40
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert make_token(tmp_path, {}) == made == find_token(tmp_path, {})
    assert make_token(tmp_path / "other", {}) != made


def test_p5_the_variable_wins_and_no_file_is_made(tmp_path: Path) -> None:
    env = {"HARNESSD_TOKEN": TOKEN}
    assert make_token(tmp_path, env) == find_token(tmp_path, env) == TOKEN
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o620, 0o601, 0o777])
def test_p5_a_token_that_others_may_read_is_refused_with_the_way_out(tmp_path: Path, mode: int) -> None:
    make_token(tmp_path, {})
    (tmp_path / "token").chmod(mode)
    with pytest.raises(UsageError) as refused:
        make_token(tmp_path, {})
    assert refused.value.hint == f"run: chmod 600 {tmp_path / 'token'}"


@pytest.mark.parametrize(
    "text", ["", "\n", "short", "two words of it", "tab\there and there", "ünïcödé-token", "x" * 600]
)
def test_p5_what_is_no_token_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    (tmp_path / "token").chmod(0o600)
    with pytest.raises(UsageError) as refused:
        make_token(tmp_path, {})
    assert text.strip() == "" or text not in str(refused.value)
    if text:
        with pytest.raises(UsageError, match="HARNESSD_TOKEN"):
            make_token(tmp_path / "other", {"HARNESSD_TOKEN": text})


@pytest.mark.parametrize("spoil", [Path.mkdir, lambda path: path.symlink_to("elsewhere"), os.mkfifo])
def test_p5_a_token_that_is_no_file_is_refused(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    spoil(tmp_path / "token")
    with pytest.raises(UsageError) as refused:
        make_token(tmp_path, {})
    assert refused.value.where == str(tmp_path / "token")


@pytest.mark.parametrize("failed", range(6))
def test_o2_three_failed_starts_in_a_row_make_the_next_one_careful(tmp_path: Path, failed: int) -> None:
    for number in range(failed):
        begin(tmp_path, f"2026-01-01T00:00:0{number}Z")
    reason = begin(tmp_path, "2026-01-01T00:01:00Z").safe_mode
    assert (reason is not None) == (failed >= 3)
    if reason is not None:
        assert f"the last {failed} starts" in reason
        assert f"2026-01-01T00:00:0{failed - 1}Z" in reason
    write_starts(tmp_path, Starts())
    assert not (tmp_path / "starts.json").exists()
    assert begin(tmp_path, "2026-01-01T00:02:00Z").safe_mode is None


@given(left=st.binary(max_size=200) | st.sampled_from([b"null", b"[]", b'{"began":7}', b'{"began":[1]}', b"{}"]))
def test_o2_no_content_of_starts_json_or_daemon_json_blocks_a_start(
    tmp_path_factory: pytest.TempPathFactory, left: bytes
) -> None:
    folder = tmp_path_factory.mktemp("state")
    for name in ("starts.json", "daemon.json"):
        (folder / name).write_bytes(left)
    assert begin(folder, "now").safe_mode is None
    assert read_starts(folder).began[-1] == "now"
    find_daemon(folder)
    write_whereabouts(folder, Whereabouts(pid=os.getpid(), port=7))
    found = find_daemon(folder)
    assert found is not None
    assert found.port == 7


def test_o2_a_daemon_that_is_gone_is_not_found(tmp_path: Path) -> None:
    gone = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(gone, 0)
    for pid in (gone, 0, -1, 10**12):
        write_whereabouts(tmp_path, Whereabouts(pid=pid))
        assert pid == 10**12 or find_daemon(tmp_path) is None
    remove_whereabouts(tmp_path)
    remove_whereabouts(tmp_path)
    assert find_daemon(tmp_path) is None
