"""Backend that serves chat completions with a model on Amazon Bedrock."""

import logging
import uuid
from datetime import UTC, datetime
from typing import Literal

import httpx

from gateway.backends.backend import Call, Reply
from gateway.backends.bedrock.converse_wire import ConverseWire
from gateway.backends.bedrock.endpoint import BedrockEndpoint, BedrockTimeouts, Signer, deadline, translated_errors
from gateway.backends.bedrock.errors import BedrockFault, fault_of_reply, public_id
from gateway.backends.bedrock.openai_wire import OpenAIWire
from gateway.backends.bedrock.output_caps import output_cap
from gateway.backends.bedrock.refusals import Refusals
from gateway.backends.bedrock.reply import ChunkSource, StreamReply, WholeReply
from gateway.backends.bedrock.wire import BedrockQuestion, Heading, Wire
from gateway.protocol.errors import ClientError, ReplyBroken
from gateway.protocol.headers import Headers

_log = logging.getLogger(__name__)

_MAX_LISTED_FIELDS = 32
_MOST_MENDED = 4
"""Maximum number of corrected retries of a request, each without a field or limit that the model has rejected."""


class BedrockBackend:
    """Backend for one chat model on Amazon Bedrock.

    Only the translated request body is sent to AWS. The client's headers are not.
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
        max_output_tokens: int | None = None,
        context_tokens: int | None = None,
        family: str = "auto",
        wire: Literal["converse", "openai"] = "converse",
        reasoning_field: str = "reasoning_content",
        timeouts: BedrockTimeouts | None = None,
        refusals: Refusals | None = None,
    ) -> None:
        """Create a backend for *model_id* in *region*. The caller owns *client* and closes it.

        *endpoint_url* replaces the region's standard address. *max_output_tokens* (older name *max_tokens_limit*) is
        the model's output limit in tokens, by default the known limit for the model id. *context_tokens* limits prompt
        and output together. *family* selects the model family whose rules requests must follow, and ``auto`` derives it
        from the model id. *reasoning_field* is the response field for reasoning; vLLM versions use
        ``reasoning_content`` or ``reasoning``. *refusals* holds the fields and limits that the model has already
        rejected, by default none.

        Raises:
            ValueError: if *model_id*, *region* or *endpoint_url* does not form a valid address, or *family* is unknown.
        """
        timeouts = timeouts or BedrockTimeouts()
        self._endpoint = BedrockEndpoint(
            region=region,
            client=client,
            signer=signer,
            endpoint_url=endpoint_url,
            timeouts=timeouts,
        )
        most = max_output_tokens or max_tokens_limit or output_cap(model_id)
        self._wire: Wire
        if wire == "openai":
            self._wire = OpenAIWire(
                model_id, default_max_tokens=default_max_tokens, max_output_tokens=most, family=family
            )
        else:
            self._wire = ConverseWire(
                model_id,
                default_max_tokens=default_max_tokens,
                max_output_tokens=most,
                context_tokens=context_tokens,
                family=family,
            )
        self._id = f"bedrock:{public_id(model_id)}"
        self._reasoning_field = reasoning_field
        self._timeouts = timeouts
        self._refusals = refusals or Refusals()

    @property
    def id(self) -> str:
        return self._id

    async def send(self, call: Call, *, first_byte_s: float | None = None) -> Reply:
        """Send *call* and return the reply. A streamed reply is returned once its first text has arrived.

        A response that Bedrock sends in one piece has a separate, longer time limit, even if the client receives it as
        a stream.

        Raises:
            ClientError: if the call needs something that this backend cannot serve. Nothing has been sent then.
        """
        if call.path.partition(b"?")[0] != b"/v1/chat/completions":
            raise ClientError("The Bedrock fallback serves chat completions only")
        question = self._wire.question(call)
        for refused in self._refusals.unsupported:
            question = question.without(refused) or question
        if self._refusals.max_output_tokens is not None:
            question = question.limited(self._refusals.max_output_tokens) or question
        limit_s = self._timeouts.whole_answer_s
        if question.streams:
            limit_s = self._timeouts.first_event_s
            limit_s = limit_s if first_byte_s is None else min(limit_s, first_byte_s)
        # Converse sends its first byte when the whole answer is there.
        async with deadline(limit_s, phase="first_byte"):
            return await self._ask(call, question)

    async def _ask(self, call: Call, question: BedrockQuestion) -> Reply:
        """Send the request to Bedrock. Send it again after each correction that Bedrock's error message asks for."""
        mended, is_renewed = 0, False
        while True:
            reply = await self._attempt(call, question)
            if not isinstance(reply, _Refusal):
                return reply
            fault = reply.fault
            other = self._mended(question, fault) if mended < _MOST_MENDED else None
            if other is not None:
                mended += 1
                question = other
            elif fault.means_expired and not is_renewed:
                is_renewed = True
                self._endpoint.forget_credentials()
            else:
                return reply.to_reply()

    def _mended(self, question: BedrockQuestion, fault: BedrockFault) -> BedrockQuestion | None:
        """Return *question* corrected as Bedrock's error asks, and remember the correction. Return None if no
        correction is possible.
        """
        if fault.unsupported is not None:
            other = question.without(fault.unsupported)
            if other is not None and self._refusals.leave_out(fault.unsupported):
                _log.warning(
                    "%s does not support the request field %s. The field is omitted from now on",
                    self._id,
                    fault.unsupported.field,
                )
            return other
        if fault.output_limit is None:
            return None
        tokens = fault.output_limit.tokens
        # "lower than N" may be meant so.
        other = question.limited(tokens) or question.limited(tokens - 1)
        if other is not None and fault.output_limit.is_of_model and self._refusals.lower_output(other.max_tokens):
            _log.warning(
                "%s accepts at most %d output tokens. Later requests are limited to this number",
                self._id,
                other.max_tokens,
            )
        return other

    async def _attempt(self, call: Call, question: BedrockQuestion) -> "Reply | _Refusal":
        response = await self._endpoint.post(question.path, question.payload)
        if response.status_code != 200:
            body = await _body(response)
            return _Refusal(fault_of_reply(response.status_code, response.headers, body), response)
        heading = Heading(_completion_id(), _created(), call.model, self._reasoning_field)
        headers = _headers(response, question)
        if question.streams:
            return await self._begun(question, heading, response, headers)
        answer = question.answer(await _body(response), heading)
        return WholeReply(status=200, headers=headers, body=answer, streams=call.streams)

    async def _begun(
        self, question: BedrockQuestion, heading: Heading, response: httpx.Response, headers: Headers
    ) -> "Reply | _Refusal":
        """Return a stream whose first text has arrived, or the error that Bedrock sent in place of text."""
        source = ChunkSource(response, question.translator(heading), metadata_s=self._timeouts.metadata_s)
        try:
            first = await _first_piece(response, question, source)
        except BaseException:
            await source.aclose()
            raise
        if isinstance(first, BedrockFault):
            await source.aclose()
            return _Refusal(first, response)
        return StreamReply(headers=headers, first=first, rest=source, idle_s=self._timeouts.idle_s)


class _Refusal:
    """Error from Bedrock that arrived before any usable part of the response."""

    def __init__(self, fault: BedrockFault, response: httpx.Response) -> None:
        self.fault = fault
        self._headers = _request_id(response)
        if fault.retry_after_s is not None:
            self._headers.append((b"retry-after", b"%d" % fault.retry_after_s))

    def to_reply(self) -> Reply:
        return WholeReply(status=self.fault.status, headers=self._headers, body=self.fault.to_body())


async def _body(response: httpx.Response) -> bytes:
    """Read and return the whole response body. The response is closed even after an error."""
    try:
        with translated_errors():
            return await response.aread()
    finally:
        await response.aclose()


async def _first_piece(
    response: httpx.Response, question: BedrockQuestion, source: ChunkSource
) -> bytes | BedrockFault:
    if not response.headers.get("content-type", "").startswith(question.content_type):
        raise ReplyBroken(
            "Bedrock returned status 200 without an event stream"
        )  # as it does to a path it does not know
    return await source.next()


def _headers(response: httpx.Response, question: BedrockQuestion) -> Headers:
    """Return the response headers, including the list of dropped request fields. Unknown field names are listed as
    ``other``.
    """
    headers = _request_id(response)
    if question.dropped:
        names = [name for name in question.dropped if name.isascii() and name.replace(".", "").isidentifier()]
        listed = [name[:64] for name in names[:_MAX_LISTED_FIELDS]]
        if len(listed) < len(question.dropped):
            listed.append("other")
        headers.append((b"x-warmgate-dropped-params", ",".join(listed).encode()))
    return headers


def _request_id(response: httpx.Response) -> Headers:
    """Return the header with AWS's request id, which AWS Support asks for."""
    request_id = response.headers.get("x-amzn-requestid")
    return [(b"x-amzn-requestid", request_id.encode("latin-1"))] if request_id else []


def _completion_id() -> str:
    return f"chatcmpl-{uuid.uuid4().hex}"


def _created() -> int:
    return int(datetime.now(tz=UTC).timestamp())
