"""How does systemd learn that the daemon is ready, or about to stop? One datagram to the socket that it named."""

import contextlib
import socket
from collections.abc import Mapping

VARIABLE = "NOTIFY_SOCKET"


def tell_systemd(env: Mapping[str, str], *lines: str) -> None:
    """Sends lines such as `READY=1`; nothing where systemd does not listen. Never fails, never waits."""
    address = env.get(VARIABLE, "")
    if not address.startswith(("/", "@")):
        return
    if address.startswith("@"):
        address = f"\0{address[1:]}"
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
        out.setblocking(False)
        out.sendto("\n".join(lines).encode(), address)
