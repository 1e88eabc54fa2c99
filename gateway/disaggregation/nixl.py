"""vLLM's flow: the prompt is computed first, and what the prefill worker says of its blocks goes to the decode worker.

1. To the prefill worker: the same body for one token that does not stream, with ``kv_transfer_params`` that ask for a
   remote decode. It answers with ``kv_transfer_params`` of its own, which nobody but the engines understands.
2. To the decode worker: the caller's body with these. It fetches the blocks, once.
3. Whatever fails before the blocks are fetched costs time only: a decode worker can compute a prompt as well.

Format and order are those of ``vllm/distributed/kv_transfer/kv_connector/v1/nixl`` (0.33.0).
"""

from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec

from gateway.attempt import CLIENT_ERRORS, OK, Attempt, ask
from gateway.backends.backend import Call
from gateway.disaggregation.division import Division
from gateway.disaggregation.prefills import Asked, Place, Prefills
from gateway.disaggregation.transferred import TransferredTail, told
from gateway.endpoints.endpoint import Endpoint
from gateway.errors import ConnectFailed, UpstreamError
from gateway.exchange import Exchange
from gateway.splice import spliced
from gateway.sse import StreamTail, Tail
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
"""Of these a body that says nothing has to go on saying nothing."""

_LOOPBACK = ("localhost", "127.", "::1", "0.0.0.0", "[::1]")  # noqa: S104  # addresses that are told, not bound


class _Answer(msgspec.Struct, gc=False):
    kv_transfer_params: msgspec.Raw = msgspec.Raw()


class _Params(msgspec.Struct, gc=False):
    remote_host: str | None = None


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_answer = msgspec.json.Decoder(_Answer).decode
_decode_params = msgspec.json.Decoder(_Params).decode


class NixlHop:
    """The hops of one request; implements `gateway.disaggregation.hop.Hop`."""

    def __init__(
        self,
        division: Division,
        prefills: Prefills,
        endpoint: Endpoint,
        exchange: Exchange,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._division = division
        self._prefills = prefills
        self._endpoint = endpoint
        self._exchange = exchange
        self._clock = clock
        self._params: bytes | None = None  # of blocks that nobody has fetched
        self._is_spent = False  # a decode worker had params, and failed: whether it fetched nobody knows
        self._cached_tokens: int | None = None

    async def answer(self, decode: Candidate, call: Call, asked: Asked) -> Attempt:
        """See `Hop.answer`. Params that a decode worker may have used are not given to a second one."""
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
            self._params = params  # which nobody has seen
            raise
        except BaseException:
            self._is_spent = True
            raise
        if attempt.status in CLIENT_ERRORS:
            # It may be the params that it refuses. What it says without them is for the caller.
            await attempt.reply.aclose()
            return await self._here(call, asked)
        self._is_spent = False
        if attempt.tail is not None:
            self._division.handover.learn(decode.remote_tokens, self._clock() - computed_at)
        else:
            attempt.first = told(attempt.first, self._cached_tokens)
        return attempt

    def tail(self, *, strip_usage: bool, max_held: int) -> Tail:
        """See `Hop.tail`."""
        return TransferredTail(lambda: self._cached_tokens, strip_usage=strip_usage, max_held=max_held)

    async def _here(self, call: Call, asked: Asked) -> Attempt:
        self._cached_tokens = None
        self._exchange.prefill = "failed" if self._prefills.has_failed or self._is_spent else "here"
        self._exchange.prefill_worker = None
        return await asked(call, False)

    async def _prefilled(self, decode: Candidate, call: Call) -> bytes | None:
        """What the decode worker is to be told of the blocks; None if it has to compute the prompt itself."""
        half: Call | None = None
        while True:
            taken = self._prefills.take(decode)
            if taken is None:
                return None
            backend, place = taken
            if half is None:
                half = call.changed(body=prefill_body(call.body), streams=False)
            with place:
                first_byte_s = self._prefills.first_byte_s(place)
                try:
                    attempt = await ask(backend, half, self._endpoint, _no_tail, first_byte_s=first_byte_s)
                except UpstreamError as error:
                    self._prefills.failed(place, error.with_traceback(None))
                    continue
                if attempt.status != OK:
                    place.refused()  # the decode worker will say it in its own words
                    params = None
                else:
                    params = self._params_of(attempt, place, backend.url)
            await attempt.reply.aclose()
            if params is not None or attempt.status != OK:
                return params

    def _params_of(self, attempt: Attempt, place: Place, url: str) -> bytes | None:
        """Those of a prefill worker's answer; None if it has none: it does not hold the blocks for anybody."""
        try:
            params = bytes(_decode_answer(attempt.first).kv_transfer_params)
        except (msgspec.DecodeError, UnicodeDecodeError):
            params = b""
        if not params.startswith(b"{"):
            self._prefills.failed(place)
            return None
        place.began()
        usage = self._endpoint.usage_of(attempt.first)
        place.answered(usage)
        self._cached_tokens = None if usage is None else usage.cached_tokens or 0
        return _reachable(params, url) if self._division.replace_loopback else params


def prefill_body(raw: bytes) -> bytes:
    """*raw*, a body of a completion, as a prefill worker gets it: one token, at once, and the blocks kept. O(bytes).

    Raises:
        MalformedBody: *raw* is not a JSON object.
    """
    given = {name: value for name, value in _WHERE_GIVEN.items() if b'"' + name.encode() + b'"' in raw}
    if given:
        fields = _fields(raw)
        given = {name: value for name, value in given.items() if name in fields}
    return spliced(raw, {**_ONE_TOKEN, **given})


def _reachable(params: bytes, url: str) -> bytes:
    """*params* whose host others can reach as well: vLLM tells ``localhost`` unless it is told its address.

    That of *url*, the worker's own, is what the gateway reaches it by, if that is not the same machine too.
    """
    try:
        host = _decode_params(params).remote_host
    except (msgspec.DecodeError, UnicodeDecodeError):
        return params
    if host is None or not host.startswith(_LOOPBACK):
        return params
    return spliced(params, {"remote_host": msgspec.json.encode(urlsplit(url).hostname)})


def _no_tail() -> Tail:
    return StreamTail(strip_usage=False)  # of an answer that does not stream
