"""SGLang's flow: both workers get the same request at once, and meet in a room at the prefill worker's bootstrap port.

1. A room is a random number of 63 bits; of n answers to one prompt each has its own, the numbers that follow.
2. The caller gets the decode worker's answer. The prefill worker's is read to its end, also after that: it holds the
   blocks until they are fetched.
3. A decode worker computes no prompt. If the prefill worker fails, both halves begin anew with another one.

Fields are those of ``sglang/srt/disaggregation`` (0.5.23).
"""

import asyncio
from urllib.parse import urlsplit

import msgspec

from gateway.attempt import CLIENT_ERRORS, Attempt, ask
from gateway.backends.backend import Call, WorkerBackend
from gateway.disaggregation.division import Division
from gateway.disaggregation.prefills import Asked, Place, Prefills
from gateway.disaggregation.transferred import TransferredTail, told
from gateway.endpoints.endpoint import Endpoint
from gateway.errors import PrefillFailed, UpstreamError
from gateway.exchange import Exchange
from gateway.splice import spliced
from gateway.sse import StreamTail, Tail
from gateway.usage import Usage
from routing.candidate import Candidate


class BootstrapHop:
    """The hops of one request; implements `gateway.disaggregation.hop.Hop`."""

    def __init__(self, division: Division, prefills: Prefills, endpoint: Endpoint, exchange: Exchange) -> None:
        self._division = division
        self._prefills = prefills
        self._endpoint = endpoint
        self._exchange = exchange
        self._cached_tokens: int | None = None

    async def answer(self, decode: Candidate, call: Call, asked: Asked) -> Attempt:
        """See `Hop.answer`.

        Raises:
            PrefillFailed: no prefill worker computed the prompt.
        """
        while True:
            taken = self._prefills.take(decode)
            if taken is None:
                if await self._prefills.somebody_comes():
                    continue
                self._exchange.prefill = "failed"
                raise PrefillFailed("No prefill worker could compute the prompt")
            backend, place = taken
            self._exchange.prefill = "remote"
            sent = self._sent(call, backend, place)
            self._cached_tokens = None
            attempt = await self._paired(backend, place, sent, asked)
            if attempt is not None:
                if attempt.tail is None:
                    attempt.first = told(attempt.first, self._cached_tokens)
                return attempt

    def tail(self, *, strip_usage: bool, max_held: int) -> Tail:
        """See `Hop.tail`."""
        return TransferredTail(lambda: self._cached_tokens, strip_usage=strip_usage, max_held=max_held)

    def _sent(self, call: Call, backend: WorkerBackend, place: Place) -> Call:
        """As both workers get it."""
        fields = {
            "bootstrap_host": msgspec.json.encode(urlsplit(backend.url).hostname),
            "bootstrap_port": b"%d" % self._division.bootstrap_port(place.booking.worker),
            "bootstrap_room": b"%d" % self._division.room(),
        }
        return call.changed(body=spliced(call.body, fields))

    async def _paired(self, backend: WorkerBackend, place: Place, sent: Call, asked: Asked) -> Attempt | None:
        """The answer to *sent*; None if the prefill worker failed at it. Its half goes on when the answer has begun."""
        prefill = self._division.begin(self._computed(backend, place, sent))
        prefill.add_done_callback(lambda _: place.release())  # it may be cancelled before it has begun
        asking = self._division.begin(asked(sent, True))
        failure: BaseException | None = None
        try:
            await asyncio.wait({prefill, asking}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done() and prefill.exception() is None and prefill.result() is None:
                await asyncio.wait({asking})
            if asking.done():
                attempt = asking.result()
                if attempt.status in CLIENT_ERRORS:
                    prefill.cancel()  # nobody will fetch what it computes
                return attempt
        except BaseException as error:  # noqa: BLE001  # raised again below
            failure = error
        try:
            # The prefill worker failed, or refused; or the decode worker did; or the caller went away.
            for half in (asking, prefill):
                half.cancel()
            await asyncio.wait({asking, prefill})
            if not asking.cancelled() and asking.exception() is None:
                await asking.result().reply.aclose()  # it came when nobody waited for it any more
            if failure is not None:
                raise failure
            return None if prefill.cancelled() or prefill.exception() is not None else prefill.result()
        finally:
            del failure  # its traceback holds this frame

    async def _computed(self, backend: WorkerBackend, place: Place, sent: Call) -> Attempt | None:
        """Have *backend* do its half, to the end of its answer; what it says if the caller is wrong, else None.

        Raises:
            UpstreamError: it failed before it had computed the prompt.
        """
        with place:
            try:
                attempt = await ask(backend, sent, self._endpoint, self._watcher)
            except UpstreamError as error:
                self._prefills.failed(place, error)
                raise
            if attempt.status in CLIENT_ERRORS:
                place.refused()
                await attempt.reply.aclose()  # all of it is there, and perhaps nobody wants it
                return attempt
            place.began()
            usage = await self._drained(attempt)
            place.answered(usage)
            if usage is not None:
                self._cached_tokens = usage.cached_tokens or 0
        return None

    async def _drained(self, attempt: Attempt) -> Usage | None:
        """The usage that its answer ends with; None if that was not seen. Whether it breaks off matters no more."""
        tail, failure = attempt.tail, None
        if tail is None:
            await attempt.reply.aclose()
            return self._endpoint.usage_of(attempt.first)
        try:
            while not attempt.reply.ended:
                tail.feed(await attempt.reply.read())
            tail.finish()
        except UpstreamError:
            pass
        except BaseException as error:  # noqa: BLE001  # raised again below
            failure = error
        try:
            await attempt.reply.aclose()
            if failure is not None:
                raise failure
        finally:
            del failure  # its traceback holds this frame
        return tail.usage

    @staticmethod
    def _watcher() -> Tail:
        return StreamTail(strip_usage=False)
