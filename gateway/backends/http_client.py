"""The HTTP client for everything but workers: httpx's, made safe to cancel."""

import asyncio
from typing import Any

import httpx

from gateway.backends.upstream.tls import accepting_missing_identifiers

_OPENED = (".connect_tcp.complete", ".start_tls.complete")


class HttpClient(httpx.AsyncClient):
    """Client of httpx in which a cancelled request leaves no connection behind.

    In httpcore 1.0.9 a request that is cancelled after its connection is open and before it holds that connection
    leaves it in the pool for good, with its socket: neither idle nor closed, and not usable. There the cancelling
    waits, a few turns of the loop and no I/O, until the request holds what it opened. Costs a task per request.
    """

    def __init__(self, **options: Any) -> None:
        """Take the options of httpx. Without ``verify``, certificates need no key identifiers, see `tls`."""
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
    """The moment between opening a connection and its use by the request, as httpcore's ``trace`` extension reports it.

    https://www.encode.io/httpcore/extensions/ names the events.
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
        """Cancel *sending* now, or when it holds the connection that it has just opened."""
        if self._is_on:
            self._cancelled = sending
        else:
            sending.cancel()
