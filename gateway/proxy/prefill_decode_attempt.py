"""Send a request to a decode worker. Another worker might compute the prompt of the request."""

from collections.abc import Callable, Coroutine
from typing import Any

from gateway.backends.backend import Backend, Call
from gateway.protocol.endpoints.endpoint import Endpoint
from gateway.protocol.errors import HandedOver
from gateway.protocol.sse import StreamObserver
from gateway.proxy.attempt import Attempt, ask
from gateway.proxy.continuation.continuation import MAX_HELD
from gateway.proxy.current_attempt import CurrentAttempt
from gateway.proxy.exchange import Exchange
from gateway.proxy.kv_transfer.kv_transfer import KvTransfer
from gateway.proxy.kv_transfer.transferred import MAX_HELD as FETCHED_MAX_HELD
from routing.booking import Ending
from routing.candidate import Candidate
from routing.disaggregation import plain
from routing.request import Request


class PrefillDecodeAttempt:
    """Attempt to send a request to a decode worker, which computes the prompt itself or fetches it with *transfer*."""

    def __init__(
        self,
        transfer: KvTransfer,
        endpoint: Endpoint,
        exchange: Exchange,
        current: CurrentAttempt,
        *,
        strip_usage: bool,
    ) -> None:
        self._transfer = transfer
        self._endpoint = endpoint
        self._exchange = exchange
        self._current = current
        self._strip_usage = strip_usage

    async def answer(  # noqa: PLR0917  # in the order in which they are known
        self,
        request: Request,
        backend: Backend,
        candidate: Candidate,
        call: Call,
        observer: Callable[[], StreamObserver],
        first_byte_s: float | None,
    ) -> Attempt:
        """Send *request* as *call* to the worker *candidate* over the connection *backend*, and return the answer.

        The arguments *observer* and *first_byte_s* are used if the worker computes the prompt itself.
        """

        def asked(sent: Call, is_remote: bool) -> Coroutine[Any, Any, Attempt]:
            if is_remote:
                return ask(backend, sent, self._endpoint, self._fetching_observer)
            self._compute_here(request, candidate)
            return ask(backend, sent, self._endpoint, observer, first_byte_s=first_byte_s)

        if candidate.remote_tokens > 0.0:
            attempt = await self._transfer.answer(candidate, call, asked)
        else:
            self._exchange.prefill = "here"
            attempt = await asked(call, False)
        self._current.answer = attempt
        return attempt

    def _compute_here(self, request: Request, candidate: Candidate) -> None:
        """Replace the slot with a larger one if the decode worker must compute a prompt that it was expected to fetch.

        Raises:
            HandedOver: if the worker accepts no more requests.
        """
        current = self._current
        booking = current.booking
        if booking is None or not booking.is_remote:
            return
        current.booking = None
        current.release(booking, Ending.ABORTED)
        if not current.reserve(request, plain(candidate)):
            raise HandedOver(f"worker {candidate.worker} accepts no more requests")

    def _fetching_observer(self) -> StreamObserver:
        max_held = FETCHED_MAX_HELD if self._current.continuation is None else MAX_HELD
        return self._transfer.observer(strip_usage=self._strip_usage, max_held=max_held)
