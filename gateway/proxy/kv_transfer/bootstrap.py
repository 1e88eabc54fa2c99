"""Transfer computed prompts with SGLang's protocol. The prefill worker and the decode worker get the same request at
the same time. They find each other by a room number at the prefill worker's bootstrap port.

1. A room is a random number of 63 bits. If a request asks for several answers to one prompt, their rooms have
   consecutive numbers.
2. The caller gets the decode worker's answer. The prefill worker's answer is always read to its end, because the
   prefill worker holds its KV blocks until they are fetched.
3. A decode worker cannot compute the prompt. If the prefill worker fails, the request is sent to another prefill worker
   and to the decode worker again.

The request fields are those of ``sglang/srt/disaggregation`` (0.5.23).
"""

import asyncio
from urllib.parse import urlsplit

import msgspec

from gateway.backends.backend import Call, WorkerBackend
from gateway.models.prefill_decode_plan import PrefillDecodePlan
from gateway.protocol.endpoints.endpoint import Endpoint
from gateway.protocol.errors import PrefillFailed, UpstreamError
from gateway.protocol.splice import spliced
from gateway.protocol.sse import ChunkObserver, StreamObserver
from gateway.protocol.usage import Usage
from gateway.proxy.attempt import CLIENT_ERRORS, Attempt, ask
from gateway.proxy.exchange import Exchange
from gateway.proxy.kv_transfer.prefill_workers import Asked, PrefillSlot, PrefillWorkers
from gateway.proxy.kv_transfer.transferred import TransferredObserver, replace_cached_tokens
from routing.candidate import Candidate


class BootstrapTransfer:
    """Prompt transfers of one request with SGLang's protocol. Implements
    `gateway.proxy.kv_transfer.kv_transfer.KvTransfer`.
    """

    def __init__(
        self, plan: PrefillDecodePlan, prefills: PrefillWorkers, endpoint: Endpoint, exchange: Exchange
    ) -> None:
        self._plan = plan
        self._prefills = prefills
        self._endpoint = endpoint
        self._exchange = exchange
        self._cached_tokens: int | None = None

    async def answer(self, decode: Candidate, call: Call, asked: Asked) -> Attempt:
        """Return the answer of the decode worker *decode* (see `KvTransfer.answer`).

        Raises:
            PrefillFailed: if no prefill worker computed the prompt.
        """
        while True:
            reserved = self._prefills.reserve(decode)
            if reserved is None:
                if await self._prefills.wait_for_worker():
                    continue
                self._exchange.prefill = "failed"
                raise PrefillFailed("No prefill worker could compute the prompt")
            backend, slot = reserved
            self._exchange.prefill = "remote"
            sent = self._sent(call, backend, slot)
            self._cached_tokens = None
            attempt = await self._paired(backend, slot, sent, asked)
            if attempt is not None:
                if attempt.observer is None:
                    attempt.first = replace_cached_tokens(attempt.first, self._cached_tokens)
                return attempt

    def observer(self, *, strip_usage: bool, max_held: int) -> StreamObserver:
        """Return an observer for the decode worker's stream (see `KvTransfer.observer`)."""
        return TransferredObserver(lambda: self._cached_tokens, strip_usage=strip_usage, max_held=max_held)

    def _sent(self, call: Call, backend: WorkerBackend, slot: PrefillSlot) -> Call:
        """Return the call to send to both the prefill worker and the decode worker."""
        fields = {
            "bootstrap_host": msgspec.json.encode(urlsplit(backend.url).hostname),
            "bootstrap_port": b"%d" % self._plan.bootstrap_port(slot.booking.worker),
            "bootstrap_room": b"%d" % self._plan.room(),
        }
        return call.changed(body=spliced(call.body, fields))

    async def _paired(self, backend: WorkerBackend, slot: PrefillSlot, sent: Call, asked: Asked) -> Attempt | None:
        """Return the answer to *sent*, or None if the prefill worker failed. The prefill worker's answer is possibly
        still being read when this method returns.
        """
        prefill = self._plan.begin(self._computed(backend, slot, sent))
        prefill.add_done_callback(lambda _: slot.release())  # it may be cancelled before it begins
        asking = self._plan.begin(asked(sent, True))
        failure: BaseException | None = None
        try:
            await asyncio.wait({prefill, asking}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done() and prefill.exception() is None and prefill.result() is None:
                await asyncio.wait({asking})
            if asking.done():
                attempt = asking.result()
                if attempt.status in CLIENT_ERRORS:
                    prefill.cancel()  # no worker will fetch what it computes
                return attempt
        except BaseException as error:  # noqa: BLE001  # raised again below
            failure = error
        try:
            # One of the workers failed or refused, or the caller disconnected.
            for half in (asking, prefill):
                half.cancel()
            await asyncio.wait({asking, prefill})
            if not asking.cancelled() and asking.exception() is None:
                await asking.result().reply.aclose()  # it arrived too late
            if failure is not None:
                raise failure
            return None if prefill.cancelled() or prefill.exception() is not None else prefill.result()
        finally:
            del failure  # its traceback holds this frame

    async def _computed(self, backend: WorkerBackend, slot: PrefillSlot, sent: Call) -> Attempt | None:
        """Let the prefill worker *backend* compute the prompt, and read its answer to the end.

        Return the worker's answer if it is a 4xx status that is the caller's fault, or None otherwise.

        Raises:
            UpstreamError: if the worker failed before it had computed the prompt.
        """
        with slot:
            try:
                attempt = await ask(backend, sent, self._endpoint, self._watcher)
            except UpstreamError as error:
                self._prefills.failed(slot, error)
                raise
            if attempt.status in CLIENT_ERRORS:
                slot.refused()
                await attempt.reply.aclose()  # the answer is complete
                return attempt
            slot.began()
            usage = await self._drained(attempt)
            slot.answered(usage)
            if usage is not None:
                self._cached_tokens = usage.cached_tokens or 0
        return None

    async def _drained(self, attempt: Attempt) -> Usage | None:
        """Read the rest of the answer and return its usage, or None if the answer breaks off before the usage."""
        observer, failure = attempt.observer, None
        if observer is None:
            await attempt.reply.aclose()
            return self._endpoint.usage_of(attempt.first)
        try:
            while not attempt.reply.ended:
                observer.feed(await attempt.reply.read())
            observer.finish()
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
        return observer.usage

    @staticmethod
    def _watcher() -> StreamObserver:
        return ChunkObserver(strip_usage=False)
