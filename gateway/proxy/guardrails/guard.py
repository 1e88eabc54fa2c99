"""Apply the guardrails of the model and the team to a request and its answer."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from msgspec import Raw

from gateway.protocol import headers as header_rules
from gateway.protocol.endpoints.endpoint import FORM, JSON, Endpoint
from gateway.protocol.errors import DECODE_ERRORS, ContentBlocked, GatewayError, GuardrailUnavailable, ReplyBroken
from gateway.protocol.splice import Places
from gateway.proxy.attempt import Attempt
from gateway.proxy.exchange import Exchange
from gateway.proxy.guardrails.chunks import Chunks
from gateway.proxy.guardrails.counters import GuardrailCounters
from gateway.proxy.guardrails.fields import ScannedFields
from gateway.proxy.guardrails.filter import Action, Direction, FilterRequest, GuardrailFilter, Text
from gateway.proxy.guardrails.form_texts import form_texts, with_form_texts
from gateway.proxy.guardrails.named_events import MessageEvents, ResponseEvents
from gateway.proxy.guardrails.reading import AtOnce, RequestReader
from gateway.proxy.guardrails.scanning import ScanFilter
from gateway.proxy.guardrails.stream import GuardedStream, KeptStream
from gateway.proxy.guardrails.stream_form import StreamForm
from gateway.proxy.guardrails.texts import texts_in, with_texts, without_tokens

SAYS_NOTHING = frozenset(
    {
        "/v1/embeddings",
        "/v2/embed",
        "/v1/rerank",
        "/rerank",
        "/v2/rerank",
        "/v1/score",
        "/score",
        "/pooling",
        "/classify",
        "/tokenize",
        "/v1/messages/count_tokens",
    }
)
"""URL paths whose answers contain no text except the caller's own. Most of these answers are lists of numbers."""

_FORMS: dict[str, Callable[[], StreamForm]] = {"/v1/responses": ResponseEvents, "/v1/messages": MessageEvents}


@dataclass(frozen=True, slots=True)
class GuardrailRule:
    """One configured guardrail."""

    filter: GuardrailFilter
    action: Action
    directions: frozenset[Direction]
    fails_open: bool = False
    """Whether a text that cannot be checked passes. Otherwise, the request is refused."""
    is_native: bool = False
    """Whether fallbacks on Bedrock can apply the guardrail themselves (see `Chain.native`)."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Guardrails in the order in which they check a text."""

    rules: tuple[GuardrailRule, ...]
    native: tuple[str, str] | None = None
    """Id and version of the guardrail that fallbacks on Bedrock apply to their own answers, or None."""

    def rules_for(self, direction: Direction) -> tuple[GuardrailRule, ...]:
        return tuple(rule for rule in self.rules if direction in rule.directions)


class Guard:
    """Guardrails that apply to one request and its answer."""

    def __init__(
        self, chain: Chain, endpoint: Endpoint, exchange: Exchange, *, model: str, counters: GuardrailCounters
    ) -> None:
        self._chain = chain
        self._endpoint = endpoint
        self._exchange = exchange
        self._model = model
        self._counters = counters
        self._noted: set[tuple[str, Direction, Action]] = set()
        self._stream: _Stream | None = None

    @property
    def native(self) -> tuple[str, str] | None:
        """Id and version of the guardrail that Bedrock applies itself, or None (see `Chain.native`)."""
        return self._chain.native

    async def request(
        self,
        raw: bytes,
        content_type: bytes = JSON,
        *,
        places: Places | None = None,
        reader: RequestReader = AtOnce(),  # noqa: B008  # it has no state
    ) -> bytes:
        """Return the body to send in place of *raw*, which is *raw* itself if nothing has changed.

        Each guardrail takes O(bytes) time. The positions of the fields of a form are passed as *places* if they are
        known. JSON is read with *reader*.

        Raises:
            ContentBlocked: if a guardrail blocks the request.
            InvalidField, MalformedBody: if the request cannot be checked.
            GuardrailUnavailable: if a guardrail does not answer and fails closed.
        """
        rules = self._chain.rules_for("request")
        if not rules:
            return raw
        acts = any(rule.action != "log" for rule in rules)
        if self._endpoint.media == FORM:
            fields = form_texts(raw, content_type, places, acts=acts)
            said = await self._said("request", rules, [field.text for field in fields])
            return raw if said is None else with_form_texts(raw, content_type, fields, said)
        texts = await reader.texts(raw, acts=acts)
        said = await self._said("request", rules, texts)
        if said is None:
            return raw
        return await reader.rewritten(raw, said)

    async def answer(self, attempt: Attempt) -> None:
        """Redact the answer of *attempt*, which is not a stream.

        Raises:
            ContentBlocked: if a guardrail blocks the answer.
            GuardrailUnavailable: if a guardrail does not answer and fails closed.
            ReplyBroken: if the answer cannot be read.
        """
        rules = self._of_answers()
        if not rules or self._endpoint.path in SAYS_NOTHING:
            return
        if header_rules.is_compressed(attempt.headers):
            raise ReplyBroken("The worker's answer is compressed, so a guardrail cannot read it")
        acts = any(rule.action != "log" for rule in rules)
        body, is_json = _read(attempt.first)
        said = await self._said("response", rules, _texts_of(body))
        changed = body if said is None else with_texts(body, said)
        changed = without_tokens(changed) if acts else changed
        if changed is not body:
            kind = next((value for name, value in attempt.headers if name == b"content-type"), JSON)
            attempt.first = msgspec.json.encode(changed) if is_json else str(changed).encode()
            attempt.headers = header_rules.of_another_body(attempt.headers, kind)

    def passed(self, data: bytes) -> bytes:
        """Return the bytes to send to the caller for *data*, which is the next part of a stream. The property `blocked`
        reports whether a guardrail has ended the stream.
        """
        return self._streamed.passed(data)

    async def finish(self, data: bytes) -> bytes:
        """Return the bytes to send to the caller at the end of a stream. *data* is the last part of the stream."""
        return await self._streamed.finish(data)

    @property
    def blocked(self) -> GatewayError | None:
        """Error that ended the stream early and that the caller has received, or None."""
        return None if self._stream is None else self._stream.blocked

    @property
    def _streamed(self) -> "_Stream":
        if self._stream is None:
            self._stream = _Stream(self, self._endpoint, self._of_answers())
        return self._stream

    def _of_answers(self) -> tuple[GuardrailRule, ...]:
        """Return the rules for answers, except the guardrail that Bedrock has already applied."""
        is_applied = self.native is not None and self._exchange.fell_back and self._exchange.served_by == "bedrock"
        return tuple(rule for rule in self._chain.rules_for("response") if not (is_applied and rule.is_native))

    async def said(self, rules: Sequence[GuardrailRule], texts: Sequence[Text]) -> tuple[str, ...] | None:
        """Return the changed texts of an answer, or None if nothing has changed."""
        return await self._said("response", rules, texts)

    def found(self, direction: Direction) -> Callable[[str, Action], None]:
        """Return the function that records matches in the direction *direction*, which is the request or the answer.

        Raises:
            ContentBlocked: if the guardrail's action is to block. The returned function raises it.
        """

        def found(name: str, action: Action) -> None:
            self.note(name, direction, action)
            if action == "block":
                raise ContentBlocked(name)

        return found

    def note(self, name: str, direction: Direction, action: Action) -> None:
        """Record that the guardrail *name* has acted on the request or on the answer."""
        if (name, direction, action) in self._noted:
            return
        self._noted.add((name, direction, action))
        self._counters.acted(name, direction, action)
        self._exchange.guardrails = (*self._exchange.guardrails, f"{name}:{direction}:{action}")

    async def _said(
        self, direction: Direction, rules: Sequence[GuardrailRule], texts: Sequence[Text]
    ) -> tuple[str, ...] | None:
        """Return *texts* after all rules have changed them one after another, or None if nothing has changed."""
        if not texts:
            return None
        present = tuple(texts)
        for rule in rules:
            question = FilterRequest(direction, present, self._exchange.team, self._model)
            try:
                verdict = await rule.filter.verdict(question)
            except GuardrailUnavailable:
                self._counters.failed(rule.filter.name)
                if rule.fails_open:
                    continue
                raise
            if verdict.outcome == "pass":
                continue
            self.note(rule.filter.name, direction, verdict.outcome)
            if verdict.outcome == "block":
                raise ContentBlocked(rule.filter.name)
            if verdict.outcome == "redact":
                present = tuple(
                    [
                        text if said == text.said else replace(text, said=said)
                        for said, text in zip(verdict.texts, present, strict=True)
                    ]
                )
        is_same = all(map(operator.is_, present, texts))
        return None if is_same else tuple([text.said for text in present])


class _Stream:
    """Streamed answer to a guarded request. Filters that scan the text piece by piece run before filters that need the
    whole text.
    """

    def __init__(self, guard: Guard, endpoint: Endpoint, rules: Sequence[GuardrailRule]) -> None:
        self._guard = guard
        self._endpoint = endpoint
        self._new_form = _FORMS.get(endpoint.path, Chunks)
        self._form = self._new_form()
        scans = [rule.filter for rule in rules if isinstance(rule.filter, ScanFilter)]
        self._others = [rule for rule in rules if not isinstance(rule.filter, ScanFilter)]
        self._acts = any(scan.action != "log" for scan in scans)
        self._events = GuardedStream(self._form, ScannedFields(scans, guard.found("response"))) if scans else None
        self._kept = KeptStream(self._new_form()) if self._others else None
        self.blocked: GatewayError | None = None

    def passed(self, data: bytes) -> bytes:
        if self.blocked is not None:
            return b""
        try:
            changed = data
            if self._events is not None:
                seen = self._events.passed(data)
                changed = seen if self._acts else data
            if self._kept is None:
                return changed
            self._kept.keep(changed)
        except (ContentBlocked, ReplyBroken) as error:
            return self._ended(error)
        return b""

    async def finish(self, data: bytes) -> bytes:
        if self.blocked is not None:
            return b""
        try:
            changed = data
            if self._events is not None:
                seen = self._events.finish(data)
                changed = seen if self._acts else data
            if self._kept is None:
                return changed
            self._kept.keep(changed)
            said = await self._guard.said(self._others, self._kept.texts())
            return self._kept.rewritten(self._new_form(), said)
        except (ContentBlocked, GuardrailUnavailable, ReplyBroken) as error:
            failure = error.with_traceback(None)
        return self._ended(failure)

    def _ended(self, error: GatewayError) -> bytes:
        self.blocked = error.with_traceback(None)
        if isinstance(error, ContentBlocked):
            comment = b": x-warmgate-guardrail: %b\n\n" % error.guardrail.encode("ascii", "replace")
            return comment + self._form.blocked(error, self._error_event)
        return self._error_event(error, 0)

    def _error_event(self, error: GatewayError, number: int) -> bytes:
        return self._endpoint.error_event(error, sequence_number=number)


def _read(data: bytes) -> tuple[Any, bool]:
    """Return the JSON value of *data* and True, or the text of *data* and False if it is not JSON."""
    try:
        return _decode_any(data), True
    except DECODE_ERRORS:
        return data.decode("utf-8", "replace"), False


def _texts_of(body: Any) -> list[Text]:
    try:
        return texts_in(body)
    except RecursionError:
        raise ReplyBroken("The worker's answer is nested too deeply for a guardrail to read") from None


_decode_any = msgspec.json.Decoder(Any, float_hook=Raw).decode
