"""Does systemd hear us, and does nothing happen where it does not listen?"""

import socket
from pathlib import Path

import pytest

from harnessd.daemon.systemd import tell_systemd


@pytest.mark.parametrize("abstract", [False, True])
def test_it_hears_what_it_is_told(tmp_path: Path, abstract: bool) -> None:
    name = f"@harnessd-{tmp_path.name}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name[1:]}" if abstract else name)
        manager.setblocking(False)
        tell_systemd({"NOTIFY_SOCKET": name}, "READY=1", "STATUS=2 homes")
        assert manager.recv(4096) == b"READY=1\nSTATUS=2 homes"


@pytest.mark.parametrize("address", [None, "", "relative", "/nowhere/at/all", "@nobody-listens", "/" + "x" * 300])
def test_nobody_who_listens_is_no_fault(address: str | None) -> None:
    tell_systemd({} if address is None else {"NOTIFY_SOCKET": address}, "READY=1")
