"""Receive and decode request bodies with limits on time and memory."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from gateway.protocol.body import Body
from gateway.protocol.endpoints.endpoint import JSON, Endpoint
from gateway.protocol.errors import InvalidField
from gateway.protocol.json_bounds import INLINE_BYTES, is_light
from gateway.protocol.splice import Places
from gateway.proxy.bodies.budget import BodyBudget, BodyShare
from gateway.proxy.bodies.decoder import BodyDecoder
from gateway.proxy.bodies.memory_guard import MemoryGuard
from gateway.proxy.bodies.receive import receive_body
from gateway.proxy.guardrails.filter import Text
from gateway.proxy.guardrails.reading import rewrite_texts, texts_of
from gateway.proxy.incoming import YIELD_BYTES, Incoming


class Bodies:
    """Receiver and decoder for the bodies of all requests."""

    def __init__(
        self,
        *,
        max_body_bytes: int,
        budget: BodyBudget,
        reader: BodyDecoder,
        guard: MemoryGuard | None = None,
        only_model: Callable[[], str | None] = lambda: None,
        rewritten: Callable[[str, bytes], str] = lambda name, _: name,
    ) -> None:
        """Create the decoder of request bodies. The function *only_model* returns the model for bodies that name no
        model, or None if bodies must name a model. *rewritten* returns the name that replaces a model name, for a
        request with the given rendered prompt.
        """
        self._max_body_bytes: Final = max_body_bytes
        self._budget: Final = budget
        self._reader: Final = reader
        self._guard: Final = guard
        self._only_model = only_model
        self._rewritten = rewritten

    def check_memory(self) -> None:
        """Raise MemoryShort while the process has too little memory to accept requests."""
        guard = self._guard
        if guard is not None and guard.looks_above:
            guard.check()

    def share(self) -> BodyShare:
        """Return a share of the memory for request bodies, for use by one request. The caller closes it when the
        request ends.
        """
        return BodyShare(self._budget)

    def receive(self, incoming: Incoming, endpoint: Endpoint, share: BodyShare) -> Coroutine[Any, Any, bytes]:
        """Return the coroutine `receive_body` for the request *incoming*. Large bodies count against *share*."""
        return receive_body(incoming, endpoint.media, max_bytes=self._max_body_bytes, share=share)

    async def read(self, endpoint: Endpoint, raw: bytes, incoming: Incoming) -> Body:
        """Return the fields of the body *raw* of the request *incoming*, with the model that a gateway in front has
        chosen.

        Raises:
            ClientError: if the body is not valid, or names no model although the gateway serves more than one.
        """
        if len(raw) <= INLINE_BYTES or (len(raw) <= YIELD_BYTES and is_light(raw)):
            body = endpoint.parse(raw, incoming.content_type)
        else:
            body = await self._reader.read(endpoint, raw, incoming.content_type)
        chosen = incoming.chosen_model
        if chosen is None:
            named = body.model or self._only_model()
            if named is None:
                raise InvalidField(
                    "The field 'model' is missing. Name a model, because the gateway serves more than one.",
                    param="model",
                )
            chosen = self._rewritten(named, body.prompt)
            if chosen == body.model:
                return body
            incoming.choose_model(chosen)  # the body may be read again after a guardrail has changed it
        return body.changed(model=chosen, names_model=False)

    async def texts(self, raw: bytes, *, acts: bool) -> list[Text]:
        """Return the texts in *raw* that guardrails check (see `RequestReader.texts` in
        `gateway.proxy.guardrails.reading`).
        """
        return texts_of(raw, acts=acts) if is_light(raw) else await self._reader.texts(raw, acts=acts)

    async def rewritten(self, raw: bytes, said: Sequence[str]) -> bytes:
        return rewrite_texts(raw, said) if is_light(raw) else await self._reader.rewritten(raw, said)

    async def places(self, endpoint: Endpoint, raw: bytes) -> Places | None:
        """Return the positions of the fields of *raw*, a large JSON request body, or None if the endpoint expects a
        form.
        """
        return await self._reader.places(raw) if endpoint.media == JSON else None
