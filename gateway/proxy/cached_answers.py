"""Send kept answers, and keep the answers of requests that may be kept (see `gateway.proxy.response_cache`).

1. A kept answer is sent only after all checks that any request passes: key, permissions, guardrails of the request.
2. Answers of fallbacks, answers that a guardrail changed and streams that another worker continued are never kept.
3. A request whose answer was kept counts against limits of requests, and is charged for a share of its usage.
"""

import asyncio
import math
from typing import Final

from gateway.models.model import Model
from gateway.protocol.body import Body
from gateway.protocol.errors import InvalidField
from gateway.protocol.headers import is_compressed
from gateway.protocol.usage import Usage
from gateway.proxy.admission import CUT, Admission
from gateway.proxy.attempt import OK, Attempt
from gateway.proxy.disconnects import Disconnects
from gateway.proxy.downstream import Downstream
from gateway.proxy.exchange import Exchange
from gateway.proxy.incoming import CallerGone, Incoming
from gateway.proxy.response_cache.answer_store import KeptAnswer
from gateway.proxy.response_cache.request_key import answer_key, cacheable_fields
from gateway.proxy.response_cache.response_cache import Claim, ResponseCache
from gateway.tenancy.teams.caller import Caller
from routing.request import Request

HEADER: Final = b"x-warmgate-cache"
"""Header of requests, with one of `MODES`, and of answers, with ``hit; age=<seconds>`` or ``miss``."""
MODES: Final = ("use", "refresh", "off")
SERVED_BY: Final = "cache"
"""Name and kind of the backend of kept answers, in logs, receipts and the ledger."""

_EVENTS: Final = b"text/event-stream; charset=utf-8"


class CachedAnswers:
    """Use of the cache by requests."""

    def __init__(self, cache: ResponseCache, admission: Admission, disconnects: Disconnects) -> None:
        self.cache = cache
        self._admission = admission
        self._disconnects = disconnects

    async def answers(  # noqa: PLR0917  # in the order in which they are known
        self,
        exchange: Exchange,
        incoming: Incoming,
        downstream: Downstream,
        caller: Caller | None,
        model: Model,
        raw: bytes,
        body: Body,
        request: Request,
    ) -> bool:
        """Send a kept answer to the request with the body *raw* if there is one, and return whether there was one. If
        an identical request is in flight, first wait for its answer.

        Raises:
            InvalidField: if the header of the request is not valid.
            RateLimited, QuotaSpent: if a limit has no room for the request.
            CallerGone: if the caller disconnects while the request waits.
        """
        caching, mode = model.response_caching, _mode(incoming)
        if caching is None or mode == "off" or (mode is None and caching.needs_request):
            return False
        fields = None if exchange.delivery is not None else cacheable_fields(exchange.path, raw)
        if fields is None:
            self.cache.results[model.name, "uncacheable"] += 1
            return False
        key = answer_key(
            self.cache.secret,
            team=None if caller is None else caller.team.name,
            guardrails=() if caller is None else caller.team.guardrails,
            identity=caching.identity,
            model=model.name,
            asked=body.model,
            target=incoming.target,
            streams=body.streams,
            fields=fields,
        )
        claim = await self._claim(incoming, key, request.priority, reads=mode != "refresh", shares=not body.streams)
        self.cache.results[model.name, claim.result] += 1
        answer = claim.answer
        if answer is None:
            exchange.claim = claim
            return False
        await self._send(exchange, downstream, caller, model, body, request.session, claim, answer)
        return True

    async def _claim(self, incoming: Incoming, key: bytes, lane: int, *, reads: bool, shares: bool) -> Claim:
        claim = self.cache.claim(key, lane, reads=reads, shares=shares)
        if claim is not None:
            return claim
        watch = self._disconnects.begin(incoming.receive)
        try:
            return await self.cache.turn(key, lane)
        except asyncio.CancelledError:
            if not watch.gone:
                raise
            watch.task.uncancel()
            raise CallerGone from None
        finally:
            self._disconnects.end(watch)

    async def _send(  # noqa: PLR0917  # in the order in which they are known
        self,
        exchange: Exchange,
        downstream: Downstream,
        caller: Caller | None,
        model: Model,
        body: Body,
        session: str | None,
        claim: Claim,
        answer: KeptAnswer,
    ) -> None:
        """Charge the request, and send *answer*, with the bytes that the first caller received."""
        exchange.enter("reserve")
        usage = charged(answer.usage, self.cache.charge_share)
        await self._admission.reserve_kept_answer(exchange, caller, model, body, session, usage)
        exchange.enter(None)
        exchange.backend = exchange.served_by = SERVED_BY
        exchange.usage = usage
        if exchange.shows_cost and not body.streams:
            exchange.show_cost(model.pricing.current, usage)
        exchange.limits_left += ((HEADER, b"hit; age=%d" % claim.age_s),)
        downstream.answers_as = None  # the answer has the name already
        if body.streams:
            await downstream.start(OK, [(b"content-type", answer.media)])
            await downstream.write(answer.body, last=True)
        else:
            await downstream.answer(OK, [(b"content-type", answer.media)], answer.body)


def note_miss(exchange: Exchange) -> None:
    """Add the header of an answer that was not kept."""
    exchange.limits_left += ((HEADER, b"miss"),)


def publish_answer(claim: Claim, exchange: Exchange, attempt: Attempt, body: bytes, usage: Usage | None) -> None:
    """Keep the answer *attempt*, which the caller receives as *body*, and pass it to identical requests in flight."""
    if attempt.status != OK or _is_special(exchange) or is_compressed(attempt.headers):
        claim.refuse()
        return
    media = next((value for name, value in attempt.headers if name == b"content-type"), b"application/json")
    claim.publish(exchange.path, body, media, usage)


def close_claim(claim: Claim, exchange: Exchange) -> None:
    """Keep the recorded stream of a request that has ended, or let the next identical request lead."""
    stream = claim.recorded()
    if exchange.error is None and stream is not None and exchange.status == OK and not _is_special(exchange):
        claim.publish(exchange.path, stream, _EVENTS, exchange.usage)
    elif exchange.error is None:
        claim.refuse()
    else:
        claim.close(has_left=exchange.error in CUT)


def charged(usage: Usage | None, share: float) -> Usage:
    """Return *share* of *usage*, rounded up. Return no tokens if the usage is unknown."""
    if usage is None or share == 0.0:
        return Usage(0, 0, 0)
    prompt, cached = math.ceil(usage.prompt_tokens * share), math.ceil((usage.cached_tokens or 0) * share)
    return Usage(prompt, math.ceil(usage.completion_tokens * share), cached)


def _is_special(exchange: Exchange) -> bool:
    """Return whether the answer depends on more than the request: on a fallback, a failure or a guardrail."""
    return exchange.fell_back or exchange.continued > 0 or bool(exchange.guardrails)


def _mode(incoming: Incoming) -> str | None:
    mode = incoming.text_of(HEADER)
    if mode is not None and mode not in MODES:
        raise InvalidField(f"The header 'x-warmgate-cache' must be one of {', '.join(MODES)}", param="x-warmgate-cache")
    return mode
