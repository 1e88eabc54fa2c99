"""Transfer computed prompts with vLLM's protocol. First, a prefill worker computes the prompt. Then, the decode worker
receives the location of the KV blocks.

1. The prefill worker gets the caller's request with a limit of one token and without streaming. The field
   ``kv_transfer_params`` asks it to keep the blocks. The prefill worker's answer contains a ``kv_transfer_params``
   field that only the engines interpret.
2. The decode worker gets the caller's request with the ``kv_transfer_params`` of the prefill worker's answer. The
   decode worker fetches the blocks once.
3. A failure before the blocks are fetched costs only time, because a decode worker can also compute the prompt.

The format and the order of calls are those of ``vllm/distributed/kv_transfer/kv_connector/v1/nixl`` (0.33.0).
"""

from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec

from gateway.backends.backend import Call
from gateway.models.prefill_decode_plan import PrefillDecodePlan
from gateway.protocol.endpoints.endpoint import Endpoint
from gateway.protocol.errors import ConnectFailed, UpstreamError
from gateway.protocol.splice import spliced
from gateway.protocol.sse import ChunkObserver, StreamObserver
from gateway.proxy.attempt import CLIENT_ERRORS, OK, Attempt, ask
from gateway.proxy.exchange import Exchange
from gateway.proxy.kv_transfer.prefill_workers import Asked, PrefillSlot, PrefillWorkers
from gateway.proxy.kv_transfer.transferred import TransferredObserver, replace_cached_tokens
from routing.candidate import Candidate

_WANTED = msgspec.json.encode(
    {
        "do_remote_decode": True,
        "do_remote_prefill": False,
        "remote_engine_id": None,
        "remote_block_ids": None,
        "remote_host": None,
        "remote_port": None,
    }
)
_ONE_TOKEN = {"stream": b"false", "max_tokens": b"1", "kv_transfer_params": _WANTED}
_WHERE_GIVEN = {"max_completion_tokens": b"1", "stream_options": b"null", "min_tokens": b"0"}
"""Request fields whose values are replaced for a prefill worker, but only if the caller's request has them."""

_LOOPBACK = ("localhost", "127.", "::1", "0.0.0.0", "[::1]")  # noqa: S104  # addresses in messages, not bound


class _Answer(msgspec.Struct, gc=False):
    kv_transfer_params: msgspec.Raw = msgspec.Raw()


class _Params(msgspec.Struct, gc=False):
    remote_host: str | None = None


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_answer = msgspec.json.Decoder(_Answer).decode
_decode_params = msgspec.json.Decoder(_Params).decode


class NixlTransfer:
    """Prompt transfers of one request with vLLM's protocol. Implements
    `gateway.proxy.kv_transfer.kv_transfer.KvTransfer`.
    """

    def __init__(
        self,
        plan: PrefillDecodePlan,
        prefills: PrefillWorkers,
        endpoint: Endpoint,
        exchange: Exchange,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._plan = plan
        self._prefills = prefills
        self._endpoint = endpoint
        self._exchange = exchange
        self._clock = clock
        self._params: bytes | None = None  # of blocks that no worker has fetched
        self._is_spent = False  # a decode worker had params and failed, and may have fetched the blocks
        self._cached_tokens: int | None = None

    async def answer(self, decode: Candidate, call: Call, asked: Asked) -> Attempt:
        """Return the answer of the decode worker *decode*. Transfer parameters that one decode worker could have used
        are not sent to another one.
        """
        params, self._params = self._params, None
        if params is None and not self._is_spent:
            params = await self._prefilled(decode, call)
        if params is None:
            return await self._here(call, asked)
        computed_at = self._clock()
        sent = call.changed(body=spliced(call.body, {"kv_transfer_params": params}))
        self._exchange.prefill = "remote"
        try:
            attempt = await asked(sent, True)
        except ConnectFailed:
            self._params = params  # no worker has seen them
            raise
        except BaseException:
            self._is_spent = True
            raise
        if attempt.status in CLIENT_ERRORS:
            # It may have refused the params. Its answer without them is for the caller.
            await attempt.reply.aclose()
            return await self._here(call, asked)
        self._is_spent = False
        if attempt.observer is not None:
            self._plan.handover.learn(decode.remote_tokens, self._clock() - computed_at)
        else:
            attempt.first = replace_cached_tokens(attempt.first, self._cached_tokens)
        return attempt

    def observer(self, *, strip_usage: bool, max_held: int) -> StreamObserver:
        """Return an observer for the decode worker's stream (see `KvTransfer.observer`)."""
        return TransferredObserver(lambda: self._cached_tokens, strip_usage=strip_usage, max_held=max_held)

    async def _here(self, call: Call, asked: Asked) -> Attempt:
        self._cached_tokens = None
        self._exchange.prefill = "failed" if self._prefills.has_failed or self._is_spent else "here"
        self._exchange.prefill_worker = None
        return await asked(call, False)

    async def _prefilled(self, decode: Candidate, call: Call) -> bytes | None:
        """Let a prefill worker compute the prompt, and return the transfer parameters, or None if the decode worker
        must compute the prompt.
        """
        half: Call | None = None
        while True:
            reserved = self._prefills.reserve(decode)
            if reserved is None:
                return None
            backend, slot = reserved
            if half is None:
                half = call.changed(body=prefill_body(call.body), streams=False)
            with slot:
                first_byte_s = self._prefills.first_byte_s(slot)
                try:
                    attempt = await ask(backend, half, self._endpoint, _no_observer, first_byte_s=first_byte_s)
                except UpstreamError as error:
                    self._prefills.failed(slot, error.with_traceback(None))
                    continue
                if attempt.status != OK:
                    slot.refused()  # the decode worker will answer the same, for the caller
                    params = None
                else:
                    params = self._params_of(attempt, slot, backend.url)
            await attempt.reply.aclose()
            if params is not None or attempt.status != OK:
                return params

    def _params_of(self, attempt: Attempt, slot: PrefillSlot, url: str) -> bytes | None:
        """Return the transfer parameters in a prefill worker's answer, or None if the worker holds no KV blocks."""
        try:
            params = bytes(_decode_answer(attempt.first).kv_transfer_params)
        except (msgspec.DecodeError, UnicodeDecodeError):
            params = b""
        if not params.startswith(b"{"):
            self._prefills.failed(slot)
            return None
        slot.began()
        usage = self._endpoint.usage_of(attempt.first)
        slot.answered(usage)
        self._cached_tokens = None if usage is None else usage.cached_tokens or 0
        return _reachable(params, url) if self._plan.replace_loopback else params


def prefill_body(raw: bytes) -> bytes:
    """Return the request body *raw*, changed for a prefill worker: one token, no streaming, and KV blocks that are
    kept. O(bytes).

    Raises:
        MalformedBody: if *raw* is not a JSON object.
    """
    given = {name: value for name, value in _WHERE_GIVEN.items() if b'"' + name.encode() + b'"' in raw}
    if given:
        fields = _fields(raw)
        given = {name: value for name, value in given.items() if name in fields}
    return spliced(raw, {**_ONE_TOKEN, **given})


def _reachable(params: bytes, url: str) -> bytes:
    """Return the transfer parameters *params* with the host of the worker's URL *url* in place of a loopback host.

    vLLM reports ``localhost`` unless its address is configured.
    """
    try:
        host = _decode_params(params).remote_host
    except (msgspec.DecodeError, UnicodeDecodeError):
        return params
    if host is None or not host.startswith(_LOOPBACK):
        return params
    return spliced(params, {"remote_host": msgspec.json.encode(urlsplit(url).hostname)})


def _no_observer() -> StreamObserver:
    return ChunkObserver(strip_usage=False)  # never used: the answer does not stream
