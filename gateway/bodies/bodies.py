"""Request bodies from the first byte to what routing knows of them, within the bounds of time and memory."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from gateway.bodies.bounds import INLINE_BYTES, is_light
from gateway.bodies.budget import BodyBudget, BodyShare
from gateway.bodies.memory_guard import MemoryGuard
from gateway.bodies.reader import BodyReader
from gateway.body import Body
from gateway.endpoints.endpoint import JSON, Endpoint
from gateway.errors import InvalidField
from gateway.guardrails.filter import Text
from gateway.guardrails.reading import texts_of, told_of
from gateway.incoming import Incoming
from gateway.splice import Places


class Bodies:
    """Receives and reads the bodies of all requests."""

    def __init__(
        self,
        *,
        max_body_bytes: int,
        budget: BodyBudget,
        reader: BodyReader,
        guard: MemoryGuard | None = None,
        only_model: Callable[[], str | None] = lambda: None,
    ) -> None:
        """*only_model* returns the model that is meant where a body names none; None if one has to be named."""
        self._max_body_bytes: Final = max_body_bytes
        self._budget: Final = budget
        self._reader: Final = reader
        self._guard: Final = guard
        self._only_model = only_model

    def check_memory(self) -> None:
        """Raises MemoryShort while the process has no memory for any request."""
        guard = self._guard
        if guard is not None and guard.looks_above:
            guard.check()

    def share(self) -> BodyShare:
        """Return what one request takes of the memory for bodies. Its owner closes it at the end of the request."""
        return BodyShare(self._budget)

    def receive(self, incoming: Incoming, endpoint: Endpoint, share: BodyShare) -> Coroutine[Any, Any, bytes]:
        """Return `Incoming.body`, which counts the bytes in *share* before it reads them."""
        return incoming.body(endpoint.media, most_bytes=self._max_body_bytes, share=share)

    async def read(self, endpoint: Endpoint, raw: bytes, content_type: bytes) -> Body:
        """What routing must know of *raw*.

        Raises:
            ClientError: as `BodyReader.read`; or it names no model, and there are several.
        """
        if len(raw) <= INLINE_BYTES:
            body = endpoint.parse(raw, content_type)
        else:
            body = await self._reader.read(endpoint, raw, content_type)
        if body.model:
            return body
        model = self._only_model()
        if model is None:
            raise InvalidField("'model' must name a model: there is more than one", param="model")
        return body.changed(model=model, names_model=False)

    async def texts(self, raw: bytes, *, acts: bool) -> list[Text]:
        """Implements `gateway.guardrails.reading.RequestReader`, as the next one does; for a body that was read."""
        return texts_of(raw, acts=acts) if is_light(raw) else await self._reader.texts(raw, acts=acts)

    async def told(self, raw: bytes, said: Sequence[str]) -> bytes:
        return told_of(raw, said) if is_light(raw) else await self._reader.told(raw, said)

    async def places(self, endpoint: Endpoint, raw: bytes) -> Places | None:
        """Where the fields of *raw* are, a large JSON body of *endpoint*; None for a form."""
        return await self._reader.places(raw) if endpoint.media == JSON else None
