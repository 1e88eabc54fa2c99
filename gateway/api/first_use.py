"""FastAPI builds its routes when one is first asked for, and reads the source of an endpoint before its first answer.

So the first scrape held the event loop for 9 ms, the next for 1. Here all of that happens before requests come.
"""

from collections.abc import Iterable
from contextlib import suppress

from gateway.server.asgi import App, Message

NOWHERE = "/-"
"""Path that nothing serves, so every route is tried."""
OFTEN_ASKED = ("/healthz", "/readyz", "/metrics", "/v1/models")


async def used_once(app: App, paths: Iterable[str] = ()) -> None:
    """Ask *app* for each of *paths* and for `NOWHERE`, whatever it answers."""
    for path in (*paths, NOWHERE):
        with suppress(Exception):  # who asks next hears of it, and the log does
            await app(_question(path), _nothing_more, _forget)


def _question(path: str) -> Message:
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [],
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", 0),
        "state": {},
    }


async def _nothing_more() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _forget(message: Message) -> None:
    pass
