"""Read the head of a caller's request that arrives over ASGI."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from cache_index import WorkerId
from gateway.backends.delivery import Delivery
from gateway.protocol import headers as header_rules
from gateway.protocol.body import MAX_NAME_CHARACTERS
from gateway.protocol.headers import Headers
from gateway.protocol.interruption import Interruption
from gateway.protocol.request_hints import REWRITE_HEADERS
from gateway.tenancy.ledger.entry import Entry

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

JSON = b"application/json"
YIELD_BYTES: Final = 64 * 1024
"""Size in bytes above which a request yields to the event loop between processing steps. For 220 kB, each step takes up
to 1.5 ms.
"""
LONG_BODY_BYTES: Final = 512 * 1024
"""Size in bytes above which the parts of a body are joined in another thread, and labels of traces are not searched."""


class CallerGone(Exception):
    """Raised if the caller has closed the connection."""


class Incoming:
    """Request whose headers have been received."""

    __slots__ = ("_chosen_model", "_fields", "_scope", "receive")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self._scope = scope
        self._fields: dict[bytes, bytes] = header_rules.fields(scope["headers"])
        self.receive = receive
        self._chosen_model: str | None = None

    @property
    def delivery(self) -> Delivery | None:
        """Delivery by the server in front of the gateway, or None if the gateway itself sends the request."""
        delivery: Delivery | None = self._scope.get("delivery")
        return delivery

    @property
    def workers(self) -> frozenset[WorkerId] | None:
        """The only workers that may answer, or None if all may. Only the gateway itself sets them, never a caller."""
        workers: frozenset[WorkerId] | None = self._scope.get("workers")
        return workers

    @property
    def interruption(self) -> Interruption | None:
        """Way to interrupt the request, which only the gateway itself gives to a request that it sends, or None."""
        interruption: Interruption | None = self._scope.get("interruption")
        return interruption

    @property
    def chosen_model(self) -> str | None:
        """Model that replaces the model in the body, or None. The gateway in front of an endpoint picker can choose it.

        The caller needs the permission for this model, as if the body named it.
        """
        if self._chosen_model is not None or "delivery" not in self._scope:
            return self._chosen_model
        name = next(filter(None, map(self.text_of, REWRITE_HEADERS)), None)
        return None if name is None else name[:MAX_NAME_CHARACTERS]

    def choose_model(self, name: str) -> None:
        """Let the model *name* replace the model in the body."""
        self._chosen_model = name

    @property
    def entries(self) -> list[Entry] | None:
        """List for the ledger entry of the request if the gateway itself writes the entry together with other data, or
        None. Only the gateway itself sets it, never a caller.
        """
        entries: list[Entry] | None = self._scope.get("entries")
        return entries

    @property
    def method(self) -> str:
        method: str = self._scope["method"]
        return method

    @property
    def path(self) -> str:
        path: str = self._scope["path"]
        return path

    @property
    def peer(self) -> str | None:
        """Network address of the client, or None for a Unix socket."""
        client = self._scope.get("client")
        return client[0] if client else None

    @property
    def is_http_1_0(self) -> bool:
        return self._scope.get("http_version") == "1.0"

    @property
    def target(self) -> bytes:
        """Path and query string, exactly as the caller sent them."""
        path: bytes = self._scope["raw_path"]
        query: bytes = self._scope["query_string"]
        return path + b"?" + query if query else path

    @property
    def request_id(self) -> bytes | None:
        """Request id from the caller, or None if the caller sent no id that is safe to forward."""
        return header_rules.request_id_of(self._fields)

    @property
    def content_type(self) -> bytes:
        """Content type from the caller, or the type of JSON if the caller sent no type."""
        return self._fields.get(b"content-type", JSON)

    def upstream_headers(self, request_id: bytes, media: bytes) -> Headers:
        """Return the headers for a worker. A JSON body gets the plain media type, and a form keeps its boundary."""
        return header_rules.upstream(self._scope["headers"], request_id, media if media == JSON else self.content_type)

    @property
    def fields(self) -> dict[bytes, bytes]:
        """First value of each request header by name. Header names are in lower case."""
        return self._fields

    def add(self, header: bytes, value: bytes) -> None:
        """Add a header that workers receive as if the caller had sent it."""
        self._scope["headers"] = [*self._scope["headers"], (header, value)]

    def text_of(self, header: bytes) -> str | None:
        """Return the first value of the request header *header*, or None if it is missing or empty."""
        value = self._fields.get(header)
        return value.decode("latin-1") if value else None

    def all_of(self, header: bytes) -> str | None:
        """Return all values of the request header *header*, joined with commas, or None if it is missing."""
        values = [value for name, value in self._scope["headers"] if name == header]
        return b",".join(values).decode("latin-1") if values else None
