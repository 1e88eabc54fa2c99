"""The lines on stdout by which a gateway announces its addresses."""

import sys
from collections.abc import Callable

from gateway.server.program_log import event_line

Announce = Callable[[str], None]
"""Function that is called once with the gateway's address as soon as the gateway accepts connections."""


def announce_on_stdout(address: str) -> None:
    """Print the line with the gateway's address, which shows that the gateway is ready."""
    sys.stdout.write(f"ready: {address}\n")
    sys.stdout.flush()


def announce_admin_on_stdout(address: str) -> None:
    """Print the address of the admin routes. This line comes before the `ready:` line."""
    sys.stdout.write(f"admin: {address}\n")


def announce_picker_on_stdout(address: str) -> None:
    """Print the address of the endpoint picker. This line comes before the `ready:` line."""
    sys.stdout.write(f"picker: {address}\n")


def announcing(event: str) -> Announce:
    """Return a function that writes an address to stdout as a JSON line with the event name *event*."""

    def announce(address: str) -> None:
        sys.stdout.write(f"{event_line(event, address=address)}\n")
        sys.stdout.flush()

    return announce


def announcements(*, is_json: bool) -> tuple[Announce, Announce]:
    """Return the functions that announce the address of the gateway and that of its admin port."""
    if is_json:
        return announcing("ready"), announcing("admin")
    return announce_on_stdout, announce_admin_on_stdout
