"""HTTP client for all servers other than workers. It is httpx's client with a fix for cancellation."""

import asyncio
from typing import Any

import httpx

from gateway.backends.upstream.tls import accepting_missing_identifiers

_OPENED = (".connect_tcp.complete", ".start_tls.complete")


class HttpClient(httpx.AsyncClient):
    """HTTP client based on httpx, in which a canceled request does not leak its connection.

    httpcore 1.0.9 has a defect. If a request is canceled after its connection opens but before the request takes
    ownership of it, the connection stays in the pool forever and cannot be used. This client delays the cancellation
    until the request owns the connection, which takes a few event loop iterations and no I/O. The cost is one task per
    request.
    """

    def __init__(self, **options: Any) -> None:
        """Create a client with httpx's options. By default, the client accepts certificates without key identifiers
        (see `tls`).
        """
        if "verify" not in options:
            options["verify"] = accepting_missing_identifiers(httpx.create_ssl_context())
        super().__init__(**options)

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        handover = _Handover()
        request.extensions = {**request.extensions, "trace": handover}
        sending = asyncio.ensure_future(super().send(request, **options))  # noqa: TID251  # ends before this does
        try:
            return await asyncio.shield(sending)
        except asyncio.CancelledError:
            handover.cancel(sending)
            await asyncio.wait([sending])
            if not sending.cancelled() and sending.exception() is None:
                await sending.result().aclose()
            raise


class _Handover:
    """Tracker of the interval between the opening of a connection and its use, through httpcore's ``trace`` extension.

    The event names are listed at https://www.encode.io/httpcore/extensions/.
    """

    def __init__(self) -> None:
        self._is_on = False
        self._cancelled: asyncio.Future[httpx.Response] | None = None

    async def __call__(self, event: str, _info: dict[str, Any]) -> None:
        self._is_on = event.endswith(_OPENED)
        if self._cancelled is not None and not self._is_on:
            self._cancelled.cancel()
            self._cancelled = None  # once: what httpcore tidies up then is not to be cancelled as well

    def cancel(self, sending: "asyncio.Future[httpx.Response]") -> None:
        """Cancel *sending* now or, if it has just opened a connection, as soon as the request owns the connection."""
        if self._is_on:
            self._cancelled = sending
        else:
            sending.cancel()
