"""Canary requests: each Bedrock model is asked for a few tokens at the start and then once in a long while.

A fallback is idle by design. Without canaries it would show only in an emergency that AWS has withdrawn the model. AWS
closes legacy models to accounts that were idle for 30 days; a request now and then keeps them open.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator

import msgspec

from gateway.backends.backend import Call, Reply
from gateway.backends.bedrock.errors import redact
from gateway.backends.fallbacks.catalog import Catalog, CatalogUnread, is_among
from gateway.backends.fallbacks.failure_class import classify
from gateway.backends.fallbacks.fallback import Fallback
from gateway.backends.fallbacks.fallbacks import Fallbacks
from gateway.backends.fallbacks.target import CanaryResult, TargetKey
from gateway.protocol.errors import GatewayError, UpstreamError, UpstreamRefused, UpstreamTimeout

_log = logging.getLogger(__name__)

LOOK_S = 30.0
"""Interval of the search for fallbacks that are due; a fallback that settings add is tried within it."""
PACE_S = 2.0
"""Pause between two requests."""
AGAIN_S = 3600.0
"""Time until the next attempt after a failure: the cause may have been repaired."""
ANSWER_S = 120.0
"""Models that were idle for long are slow to start."""
MAX_TOKENS = 16
QUESTION = "Say OK."
MAX_LOGGED = 200
MAX_BYTES = 2**20


class CanaryRules(msgspec.Struct, frozen=True):
    at_start: bool = True
    every_s: float | None = None
    """None: only at the start."""


class Canary:
    """Canary of all models' fallbacks on Bedrock, each target once."""

    def __init__(
        self,
        by_model: Callable[[], Iterable[Fallbacks]],
        *,
        rules: Callable[[], CanaryRules],
        catalog: Callable[[TargetKey], Catalog | None],
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        answer_s: float = ANSWER_S,
    ) -> None:
        """The first three are called each time; *catalog* returns None where no catalog can be read."""
        self._by_model = by_model
        self._rules = rules
        self._catalog = catalog
        self._clock = clock
        self._sleep = sleep
        self._answer_s = answer_s

    async def run(self) -> None:
        """Send the canaries that are due, until cancelled."""
        while True:
            try:
                await self.look()
            except Exception:  # noqa: BLE001  # one failed canary must not stop the others
                _log.exception("a look at the fallbacks failed")
            await self._sleep(LOOK_S)

    async def look(self) -> None:
        """Send the canaries that are due now, one after the other."""
        asked: list[Fallback] = []
        for fallbacks, fallback in list(self._with_canary()):
            if self._is_due(fallback):
                if asked:
                    await self._sleep(PACE_S)
                await self._check(fallbacks, fallback)
                asked.append(fallback)
        if asked:
            await self._look_up(asked)

    def _with_canary(self) -> Iterator[tuple[Fallbacks, Fallback]]:
        seen: set[TargetKey] = set()
        for fallbacks in self._by_model():
            for fallback in fallbacks.in_order:
                if fallback.has_canary and fallback.target.key not in seen:
                    seen.add(fallback.target.key)
                    yield fallbacks, fallback

    def _is_due(self, fallback: Fallback) -> bool:
        target, rules, now = fallback.target, self._rules(), self._clock()
        if target.seen_at is None:
            target.seen_at = now
        if target.checked is None:
            return rules.at_start or (rules.every_s is not None and now >= target.seen_at + rules.every_s)
        if rules.every_s is None:
            return False
        return now >= target.checked.at + (rules.every_s if target.checked.ok else min(rules.every_s, AGAIN_S))

    async def _check(self, fallbacks: Fallbacks, fallback: Fallback) -> None:
        breaker = fallback.target.breaker
        life = breaker.sent(self._clock())
        try:
            async with asyncio.timeout(self._answer_s):
                await _ask(fallback, fallbacks.model)
        except (GatewayError, TimeoutError) as error:
            failure = error if isinstance(error, UpstreamError) else None
            if isinstance(error, TimeoutError):
                failure = UpstreamTimeout("did not answer", phase="total")
            said = type(error).__name__ if failure is None else redact(failure.message)[:MAX_LOGGED]
            _log.warning("the canary of model %s failed: %s: %s", fallbacks.model, fallback.id, said)
            now = self._clock()
            if failure is not None:
                breaker.failed(classify(failure), life, now)
            else:
                breaker.released(life)
            fallback.target.checked = CanaryResult(ok=False, at=now)
        else:
            breaker.answered(life)
            fallback.target.checked = CanaryResult(ok=True, at=self._clock())

    async def _look_up(self, fallbacks: Iterable[Fallback]) -> None:
        """Warn of models that AWS is about to take away. Best effort: not everybody may list models."""
        by_place: dict[str, list[Fallback]] = {}
        for fallback in fallbacks:
            by_place.setdefault(fallback.target.key.place, []).append(fallback)
        for place, there in by_place.items():
            catalog = next(filter(None, (self._catalog(each.target.key) for each in there)), None)
            if catalog is None:
                continue
            try:
                legacy = await catalog.legacy()
            except (CatalogUnread, GatewayError) as error:
                _log.info("AWS did not say which models of %s are legacy (%s)", place, error)
                continue
            for fallback in there:
                fallback.target.is_legacy = is_among(fallback.target.key.model, legacy)
                if fallback.target.is_legacy:
                    _log.warning(
                        "AWS marks %s as legacy: it will be retired, and idle accounts lose access", fallback.id
                    )


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
    while not reply.ended and len(pieces) < MAX_BYTES and (data := await reply.read()):
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
