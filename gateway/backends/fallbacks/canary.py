"""Canary requests, which request a few tokens from each Bedrock fallback at startup and then at long intervals.

Fallbacks are idle most of the time. Without canaries a missing model would be noticed only in an outage. AWS also
closes legacy models to accounts that have not used them for 30 days, which an occasional request prevents.
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
"""Seconds between two checks for canary requests that are due. New fallbacks are tried within this time."""
PACE_S = 2.0
"""Seconds between two canary requests."""
AGAIN_S = 3600.0
"""Longest time in seconds before a failed canary request is repeated, because the cause might have been fixed."""
ANSWER_S = 120.0
"""Time limit for a canary request in seconds. Models that have been idle for a long time start slowly."""
MAX_TOKENS = 16
QUESTION = "Say OK."
MAX_LOGGED = 200
MAX_BYTES = 2**20


class CanaryRules(msgspec.Struct, frozen=True):
    at_start: bool = True
    every_s: float | None = None
    """Seconds between two canary requests to a fallback, or None to send them only at startup."""


class Canary:
    """Sender of canary requests to all Bedrock fallbacks, one per target."""

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
        """Create a sender of canary requests. Every check calls the functions *by_model*, *rules* and *catalog*.
        *catalog* can return None.
        """
        self._by_model = by_model
        self._rules = rules
        self._catalog = catalog
        self._clock = clock
        self._sleep = sleep
        self._answer_s = answer_s

    async def run(self) -> None:
        """Send canary requests when they are due, until canceled."""
        while True:
            try:
                await self.look()
            except Exception:  # noqa: BLE001  # one failed canary must not stop the others
                _log.exception("Sending canary requests to fallbacks failed")
            await self._sleep(LOOK_S)

    async def look(self) -> None:
        """Send the canary requests that are due now, one after the other."""
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
            _log.warning("The canary request for model %s failed: %s: %s", fallbacks.model, fallback.id, said)
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
        """Log a warning for models that AWS will retire soon. Nothing is logged if the account has no permission to
        list models.
        """
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
                _log.info("The list of legacy models in %s could not be read (%s)", place, error)
                continue
            for fallback in there:
                fallback.target.is_legacy = is_among(fallback.target.key.model, legacy)
                if fallback.target.is_legacy:
                    _log.warning(
                        "AWS marks %s as legacy and will retire it. Idle accounts lose access to it", fallback.id
                    )


async def _ask(fallback: Fallback, model: str) -> None:
    """Send one canary request and check its response.

    Raises:
        GatewayError: if the fallback cannot be reached, rejects the request or returns an error status.
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
        raise UpstreamRefused(f"returned status {reply.status}: {_message(said)}", status=reply.status)


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
        return "no error message"
