"""Asks every Bedrock model that is mapped for a few tokens, at the start and then once in a long while.

A fallback is idle by design: whether AWS still gives the model to this account would be known only when it is needed.
AWS closes legacy models to accounts that were idle for 30 days, and asking now and then keeps them open.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator

import msgspec

from gateway.backends.backend import Call, Reply
from gateway.backends.bedrock.errors import redact
from gateway.cascade.cascade import Cascade
from gateway.cascade.catalogue import Catalogue, CatalogueUnread, is_among
from gateway.cascade.fallback import Fallback
from gateway.cascade.target import Checked, TargetKey
from gateway.cascade.verdict import verdict_of
from gateway.errors import GatewayError, UpstreamError, UpstreamRefused, UpstreamTimeout

_log = logging.getLogger(__name__)

LOOK_S = 30.0
"""Between two looks at what is due: so soon a fallback that settings have added is tried."""
PACE_S = 2.0
"""Between two questions."""
AGAIN_S = 3600.0
"""After a failure, if that is sooner than the next time: it may have been mended."""
ANSWER_S = 120.0
"""Models that nobody used for long take their time."""
MAX_TOKENS = 16
QUESTION = "Say OK."
MOST_TOLD = 200
MOST_BYTES = 2**20


class CanaryRules(msgspec.Struct, frozen=True):
    at_start: bool = True
    every_s: float | None = None
    """None: never again."""


class Canary:
    """Of all models' fallbacks on Bedrock, each target once."""

    def __init__(
        self,
        cascades: Callable[[], Iterable[Cascade]],
        *,
        rules: Callable[[], CanaryRules],
        catalogue: Callable[[TargetKey], Catalogue | None],
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        answer_s: float = ANSWER_S,
    ) -> None:
        """The first three are asked anew each time; *catalogue* gives None where there is none to be asked."""
        self._cascades = cascades
        self._rules = rules
        self._catalogue = catalogue
        self._clock = clock
        self._sleep = sleep
        self._answer_s = answer_s

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.look()
            except Exception:  # noqa: BLE001  # whatever comes of a question, the next one is asked
                _log.exception("a look at the fallbacks failed")
            await self._sleep(LOOK_S)

    async def look(self) -> None:
        """Ask whoever is due, one after the other."""
        asked: list[Fallback] = []
        for cascade, fallback in list(self._fallbacks()):
            if self._is_due(fallback):
                if asked:
                    await self._sleep(PACE_S)
                await self._check(cascade, fallback)
                asked.append(fallback)
        if asked:
            await self._look_up(asked)

    def _fallbacks(self) -> Iterator[tuple[Cascade, Fallback]]:
        seen: set[TargetKey] = set()
        for cascade in self._cascades():
            for fallback in cascade.fallbacks:
                if fallback.kind == "bedrock" and fallback.target.key not in seen:
                    seen.add(fallback.target.key)
                    yield cascade, fallback

    def _is_due(self, fallback: Fallback) -> bool:
        target, rules, now = fallback.target, self._rules(), self._clock()
        if target.seen_at is None:
            target.seen_at = now
        if target.checked is None:
            return rules.at_start or (rules.every_s is not None and now >= target.seen_at + rules.every_s)
        if rules.every_s is None:
            return False
        return now >= target.checked.at + (rules.every_s if target.checked.ok else min(rules.every_s, AGAIN_S))

    async def _check(self, cascade: Cascade, fallback: Fallback) -> None:
        breaker = fallback.target.breaker
        life = breaker.sent(self._clock())
        try:
            async with asyncio.timeout(self._answer_s):
                await _ask(fallback, cascade.model)
        except (GatewayError, TimeoutError) as error:
            failure = error if isinstance(error, UpstreamError) else None
            if isinstance(error, TimeoutError):
                failure = UpstreamTimeout("did not answer", phase="total")
            said = type(error).__name__ if failure is None else redact(failure.message)[:MOST_TOLD]
            _log.warning("the canary of model %s failed: %s: %s", cascade.model, fallback.id, said)
            now = self._clock()
            if failure is not None:
                breaker.failed(verdict_of(failure), life, now)
            else:
                breaker.released(life)
            fallback.target.checked = Checked(ok=False, at=now)
        else:
            breaker.answered(life)
            fallback.target.checked = Checked(ok=True, at=self._clock())

    async def _look_up(self, fallbacks: Iterable[Fallback]) -> None:
        """Warn of models that AWS is about to take away. Best effort: not everybody may list models."""
        by_place: dict[str, list[Fallback]] = {}
        for fallback in fallbacks:
            by_place.setdefault(fallback.target.key.place, []).append(fallback)
        for place, there in by_place.items():
            catalogue = next(filter(None, (self._catalogue(each.target.key) for each in there)), None)
            if catalogue is None:
                continue
            try:
                legacy = await catalogue.legacy()
            except (CatalogueUnread, GatewayError) as error:
                _log.info("AWS does not tell which models of %s are legacy (%s)", place, error)
                continue
            for fallback in there:
                fallback.target.is_legacy = is_among(fallback.target.key.model, legacy)
                if fallback.target.is_legacy:
                    _log.warning("%s is marked as legacy by AWS: it will end, and idle accounts lose it", fallback.id)


async def _ask(fallback: Fallback, model: str) -> None:
    """Raise what a request would.

    Raises:
        GatewayError: it cannot be reached, refuses, or answers something else.
    """
    body = {"model": model, "messages": [{"role": "user", "content": QUESTION}], "max_tokens": MAX_TOKENS}
    call = Call(
        method=b"POST",
        path=b"/v1/chat/completions",
        headers=[(b"content-type", b"application/json")],
        body=msgspec.json.encode(body),
        streams=False,
        model=model,
    )
    reply = await fallback.backend.send(call)
    try:
        said = await _body(reply)
    finally:
        await reply.aclose()
    if reply.status != 200:
        raise UpstreamRefused(f"answered {reply.status}: {_message(said)}", status=reply.status)


async def _body(reply: Reply) -> bytes:
    pieces = bytearray()
    while not reply.ended and len(pieces) < MOST_BYTES and (data := await reply.read()):
        pieces += data
    return bytes(pieces)


class _Error(msgspec.Struct):
    message: str


class _Refusal(msgspec.Struct):
    error: _Error


def _message(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Refusal).error.message
    except (msgspec.DecodeError, UnicodeDecodeError):
        return "no reason given"
