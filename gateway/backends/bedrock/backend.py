"""A Bedrock model that answers in OpenAI's shape."""

import uuid
from datetime import UTC, datetime

import httpx

from gateway.backends.backend import Call, Headers, Reply
from gateway.backends.bedrock.answer import to_completion
from gateway.backends.bedrock.endpoint import Endpoint, Signer, Timeouts, deadline, translated_errors
from gateway.backends.bedrock.errors import Fault, fault_of_reply, redact_account
from gateway.backends.bedrock.reply import ChunkSource, StreamReply, WholeReply
from gateway.backends.bedrock.request import ConverseRequest, to_converse
from gateway.backends.bedrock.stream import ChunkWriter
from gateway.errors import ClientError, ReplyBroken

_EVENT_STREAM = "application/vnd.amazon.eventstream"
_MAX_LISTED_FIELDS = 32


class BedrockBackend:
    """One model on Bedrock, for text chat.

    The client's own headers stay here: nothing of a call but its translated body goes to AWS.
    """

    def __init__(
        self,
        *,
        model_id: str,
        region: str,
        client: httpx.AsyncClient,
        signer: Signer,
        endpoint_url: str | None = None,
        default_max_tokens: int = 4096,  # Llama 3.3's cap on Bedrock, the lowest of the models one would fall back to
        max_tokens_limit: int | None = None,
        reasoning_field: str = "reasoning_content",
        timeouts: Timeouts | None = None,
    ) -> None:
        """*client* is shared, and closed by its owner. *endpoint_url* takes the place of the region's own address.

        *reasoning_field* is where a reasoning model's thoughts go; vLLM has called it ``reasoning_content`` and
        ``reasoning``.

        Raises:
            ValueError: *model_id*, *region* or *endpoint_url* cannot make an address.
        """
        timeouts = timeouts or Timeouts()
        self._endpoint = Endpoint(
            model_id=model_id,
            region=region,
            client=client,
            signer=signer,
            endpoint_url=endpoint_url,
            timeouts=timeouts,
        )
        self._id = f"bedrock:{redact_account(model_id)}"
        self._default_max_tokens = default_max_tokens
        self._max_tokens_limit = max_tokens_limit
        self._reasoning_field = reasoning_field
        self._timeouts = timeouts

    @property
    def id(self) -> str:
        return self._id

    async def send(self, call: Call) -> Reply:
        """As the contract has it; a stream's first text is there when this returns.

        Raises:
            ClientError: the call asks for what this backend cannot serve; nothing was sent.
        """
        if call.path.partition(b"?")[0] != b"/v1/chat/completions":
            raise ClientError("the Bedrock fallback serves chat completions only")
        request = to_converse(
            call.body, default_max_tokens=self._default_max_tokens, max_tokens_limit=self._max_tokens_limit
        )
        if call.streams:
            return await self._send_stream(call, request)
        return await self._send_whole(call, request)

    async def _send_whole(self, call: Call, request: ConverseRequest) -> Reply:
        # Converse sends its first byte when the whole answer is there.
        async with deadline(self._timeouts.whole_answer_s, phase="first_byte"):
            response = await self._endpoint.post("converse", request.payload)
            body = await _body(response)
        if response.status_code != 200:
            return self._refusal(response, body)
        completion = to_completion(
            body,
            completion_id=_completion_id(),
            created=_created(),
            model=call.model,
            reasoning_field=self._reasoning_field,
        )
        return WholeReply(status=200, headers=_headers(response, request), body=completion)

    async def _send_stream(self, call: Call, request: ConverseRequest) -> Reply:
        writer = ChunkWriter(
            completion_id=_completion_id(),
            created=_created(),
            model=call.model,
            includes_usage=request.wants_usage,
            reasoning_field=self._reasoning_field,
        )
        async with deadline(self._timeouts.first_event_s, phase="first_byte"):
            response = await self._endpoint.post("converse-stream", request.payload)
            if response.status_code != 200:
                return self._refusal(response, await _body(response))
            source = ChunkSource(response, writer=writer, metadata_s=self._timeouts.metadata_s)
            try:
                first = await _first_piece(response, source)
            except BaseException:
                await source.aclose()
                raise
        if isinstance(first, Fault):
            await source.aclose()
            return _error_reply(first, response)
        return StreamReply(headers=_headers(response, request), first=first, rest=source, idle_s=self._timeouts.idle_s)

    def _refusal(self, response: httpx.Response, body: bytes) -> Reply:
        fault = fault_of_reply(response.status_code, response.headers, body)
        if "expiredtoken" in fault.kind.lower():
            self._endpoint.forget_credentials()
        return _error_reply(fault, response)


async def _body(response: httpx.Response) -> bytes:
    """All of the body; the response is closed, also by a failure."""
    try:
        with translated_errors():
            return await response.aread()
    finally:
        await response.aclose()


async def _first_piece(response: httpx.Response, source: ChunkSource) -> bytes | Fault:
    if not response.headers.get("content-type", "").startswith(_EVENT_STREAM):
        raise ReplyBroken("Bedrock answered 200 without an event stream")  # as it does to a path it does not know
    return await source.next(idle_s=None)


def _error_reply(fault: Fault, response: httpx.Response) -> Reply:
    headers = _request_id(response)
    if fault.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % fault.retry_after_s))
    return WholeReply(status=fault.status, headers=headers, body=fault.to_body())


def _headers(response: httpx.Response, request: ConverseRequest) -> Headers:
    """With the dropped fields: their names are the caller's own text, so what does not look like one is ``other``."""
    headers = _request_id(response)
    if request.dropped:
        names = [name for name in request.dropped if name.isascii() and name.replace(".", "").isidentifier()]
        listed = [name[:64] for name in names[:_MAX_LISTED_FIELDS]]
        if len(listed) < len(request.dropped):
            listed.append("other")
        headers.append((b"x-warmgate-dropped-fields", ",".join(listed).encode()))
    return headers


def _request_id(response: httpx.Response) -> Headers:
    """AWS's own id of the request, which its support asks for."""
    request_id = response.headers.get("x-amzn-requestid")
    return [(b"x-amzn-requestid", request_id.encode("latin-1"))] if request_id else []


def _completion_id() -> str:
    return f"chatcmpl-{uuid.uuid4().hex}"


def _created() -> int:
    return int(datetime.now(tz=UTC).timestamp())
