"""Lets requests in and settles what they used: who asks, whether it may, and what is left of its limits.

1. Nothing is charged for what is refused, nor for what fails because of us.
2. What was reserved is settled once, however the request ends: to what the engine counted, or, where its count was not
   seen, to the prompt and to what was streamed.
3. Where there are no teams everything passes, and nothing is counted.
"""

from collections.abc import Callable

import msgspec

from gateway.body import Body
from gateway.errors import Forbidden, InvalidKey, QuotaSpent, RateLimited, Stopping
from gateway.exchange import Account, Exchange
from gateway.incoming import CallerGone, Incoming
from gateway.ledger.entry import Entry, Outcome
from gateway.ledger.price import Price
from gateway.ledger.recorder import Recorder
from gateway.models import Model
from gateway.quota.plan import Tokens
from gateway.quota.quota import Ask, Quota, Reservation
from gateway.teams.access import Access
from gateway.teams.cache_salt import isolated_salt
from gateway.teams.caller import Caller
from routing.request import Request

_NOTHING = Tokens(0, 0, 0)
_CUT = frozenset({CallerGone.__name__, Stopping.__name__})
"""How requests end whose answer the caller did not wait for, or could not: what there was of it was used."""


class Admission:
    """What the life of a request asks before it is dispatched, and tells at its end."""

    def __init__(
        self,
        access: Access,
        quota: Quota,
        recorder: Recorder,
        *,
        pepper: Callable[[], bytes],
        user_header: bytes,
    ) -> None:
        """*pepper* is the one that digests are made with."""
        self._access = access
        self._quota = quota
        self._recorder = recorder
        self._pepper = pepper
        self._user_header = user_header

    async def caller(self, incoming: Incoming, exchange: Exchange) -> Caller | None:
        """Who asks; None where there are no teams. Raises as `Access.caller`."""
        try:
            caller = self._access.caller(incoming.text_of, incoming.peer, incoming.all_of)
        except InvalidKey:
            caller = await self._surely(incoming, exchange)
        except Forbidden as refusal:
            _note(refusal, exchange)
            raise
        if caller is not None:
            exchange.team = caller.team.name
            exchange.key = caller.key.id
            exchange.user = incoming.text_of(self._user_header)
        return caller

    async def _surely(self, incoming: Incoming, exchange: Exchange) -> Caller | None:
        """Before a key is refused, the store is heard once more."""
        try:
            return await self._access.sure_caller(incoming.text_of, incoming.peer, incoming.all_of)
        except (InvalidKey, Forbidden) as refusal:
            _note(refusal, exchange)
            raise

    def isolated(self, body: Body, caller: Caller | None) -> Body:
        """*body*, with a salt of the caller's team where that shares its cached prefixes with nobody."""
        if caller is None or not caller.team.isolated_cache:
            return body
        salt = isolated_salt(caller.team.name, self._pepper())
        if body.cache_salt:
            salt = f"{salt}.{body.cache_salt}"
        return msgspec.structs.replace(body, cache_salt=salt, imposes_salt=True)

    def check_model(self, caller: Caller | None, asked: str, model: str) -> None:
        """Raises Forbidden where *caller* may not ask for *asked*, which stands for the model configured as *model*."""
        if caller is not None:
            caller.permits.check_model(asked, model)

    async def reserve(
        self, exchange: Exchange, caller: Caller | None, model: Model, body: Body, request: Request
    ) -> None:
        """Take what *request* is expected to use of all limits of *caller*, or nothing at all.

        Raises:
            RateLimited, QuotaSpent: a limit has no room.
            StoreAway: limits cannot be counted.
        """
        exchange.prompt_tokens = request.prompt_tokens
        if caller is None:
            return
        exchange.model_asked = body.model
        exchange.user = exchange.user or body.user
        ask = Ask(request.prompt_tokens, max_tokens=body.max_tokens, choices=body.n, generates=body.max_tokens != 0)

        def lost(expected: Tokens) -> Entry:
            return self._entry(exchange, caller, "lost", expected, price=model.price, now=exchange.started)

        try:
            reservation = await self._quota.reserve(caller, model.metered, ask, lost)
        except (RateLimited, QuotaSpent) as refusal:
            exchange.refused_by = refusal.refused_by
            raise
        exchange.limits_left = reservation.headers
        exchange.account = Account(caller, reservation, model)

    def settle(self, exchange: Exchange, now: float) -> None:
        """*exchange* ended at *now* (monotonic): count and book what it used, if anything is due."""
        account, exchange.account = exchange.account, None
        if account is None:
            return
        outcome, used = _used(exchange, account.reservation)
        price = account.model.fallback_price if exchange.fell_back else account.model.price
        entry = self._entry(exchange, account.caller, outcome, used, price=price, now=now)
        exchange.cost_usd = entry.record.cost_usd
        exchange.saved_usd = entry.record.saved_usd
        self._quota.settle(account.reservation, entry)

    def _entry(
        self, exchange: Exchange, caller: Caller, outcome: Outcome, tokens: Tokens, *, price: Price, now: float
    ) -> Entry:
        first, started = exchange.first_byte, exchange.started
        return self._recorder.entry(
            request_id=exchange.request_id.decode("ascii"),
            team=caller.team.name,
            project=caller.key.project,
            key=caller.key.id,
            user=exchange.user,
            model_asked=exchange.model_asked or "",
            model=exchange.model or "",
            backend=exchange.backend,
            outcome=outcome,
            status=exchange.status,
            prompt_tokens=round(tokens.prompt),
            cached_tokens=round(tokens.cached),
            completion_tokens=round(tokens.completion),
            cost_usd=price.cost_usd(tokens.prompt, tokens.cached, tokens.completion),
            saved_usd=price.saved_usd(tokens.cached),
            fell_back=exchange.fell_back,
            ttft_s=None if first is None else first - started,
            duration_s=now - started,
        )


def _note(refusal: InvalidKey | Forbidden, exchange: Exchange) -> None:
    """Who was refused, if its secret was right."""
    if refusal.whose is not None:
        exchange.team, exchange.key = refusal.whose


def _used(exchange: Exchange, reservation: Reservation) -> tuple[Outcome, Tokens]:
    """How the request ended, and what it used."""
    if exchange.error is None:
        usage = exchange.usage
        if usage is None:
            return "ok", _seen(exchange, reservation)
        return "ok", Tokens(usage.prompt_tokens, usage.cached_tokens or 0, usage.completion_tokens)
    if exchange.error in _CUT:
        return "aborted", _seen(exchange, reservation) if exchange.attempts else _NOTHING
    return "failed", _NOTHING


def _seen(exchange: Exchange, reservation: Reservation) -> Tokens:
    """Without the engine's count: the prompt, and an event of the stream for each token.

    Of an answer that was to come whole nobody saw how much was generated: what was reserved.
    """
    prompt = round(exchange.prompt_tokens)
    completion = exchange.streamed_events if exchange.streams else reservation.expected.completion
    return Tokens(prompt, min(prompt, int(exchange.hit_tokens)), completion)
