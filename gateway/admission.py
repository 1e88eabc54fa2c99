"""Lets requests in and settles what they used: who asks, whether it may, and what is left of its limits.

1. Nothing is charged for what is refused, nor for what fails before the caller had anything of it.
2. What was reserved is settled once, however the request ends: to what the engine counted, or, where its count was not
   seen, to the prompt and to what was streamed.
3. Where there are no teams everything passes, and nothing is counted.
"""

from collections.abc import Callable
from typing import Final, Literal

from cache_index import WorkerId
from gateway.body import Body
from gateway.errors import Forbidden, InvalidField, InvalidKey, QuotaSpent, RateLimited, Stopping, UnknownResponse
from gateway.exchange import Account, Exchange
from gateway.incoming import CallerGone, Incoming
from gateway.ledger.entry import NANO, Entry
from gateway.ledger.price import Price
from gateway.ledger.record import Outcome
from gateway.ledger.recorder import Recorder, to_nano
from gateway.model import Model
from gateway.quota.overspending import Overspending, Stream
from gateway.quota.plan import Metered, Tokens
from gateway.quota.quota import Ask, Quota, Reservation
from gateway.quota.soft_budgets import SoftBudgets
from gateway.teams.access import Access
from gateway.teams.cache_salt import isolated_salt
from gateway.teams.caller import Caller
from gateway.wishes import LONGEST_NAME
from routing.request import Request

HitHeaders = Literal["own", "shared", "off"]
"""Who sees hits: those who share cached prefixes with no other team, all, or nobody."""

_NOTHING: Final = Tokens(0, 0, 0)
_CUT: Final = frozenset({CallerGone.__name__, Stopping.__name__})
"""How requests end whose answer the caller did not wait for, or could not: what there was of it was used."""
_GUESSED: Final = UnknownResponse.__name__
"""How requests end for an id that is not known. They count in limits of requests: ids must not be guessed freely."""
_FREE: Final = Price()
_NO_MODEL: Final = Metered("", _FREE.cost_usd)
"""Of requests about a model that nobody knows: limits of all models together count them."""


class Admission:
    """What the life of a request asks before it is dispatched, and tells at its end."""

    def __init__(
        self,
        access: Access,
        quota: Quota,
        recorder: Recorder,
        *,
        overspending: Overspending,
        soft_budgets: SoftBudgets,
        pepper: Callable[[], bytes],
        user_header: bytes,
        hit_headers: HitHeaders = "own",
    ) -> None:
        """*pepper* is the one that digests are made with; *hit_headers* says who sees what was predicted of caches."""
        self._access = access
        self._quota = quota
        self._recorder = recorder
        self._overspending = overspending
        self._soft_budgets = soft_budgets
        self._pepper = pepper
        self._user_header = user_header
        self._hit_headers: HitHeaders = hit_headers

    def known(self, incoming: Incoming, exchange: Exchange) -> Caller | None:
        """Who asks, where that is sure already; None: `caller` has to look."""
        caller = self._access.known(incoming.fields)
        if caller is not None:
            self._note_caller(caller, incoming, exchange)
        return caller

    async def caller(self, incoming: Incoming, exchange: Exchange) -> Caller | None:
        """Who asks; None where there are no teams. Raises as `Access.caller`."""
        caller = await self._found(incoming, exchange)
        if caller is not None:
            self._access.mark(incoming.fields, caller)
            self._note_caller(caller, incoming, exchange)
        elif self._hit_headers == "off":
            exchange.shows_hits = False
        return caller

    def _note_caller(self, caller: Caller, incoming: Incoming, exchange: Exchange) -> None:
        exchange.team = caller.team_name
        exchange.key = caller.key_id
        if self._hit_headers != "shared":  # a hit on what another team has sent would tell how much of it was guessed
            exchange.shows_hits = self._hit_headers == "own" and caller.team.isolated_cache
        if self._user_header in incoming.fields:
            said = incoming.text_of(self._user_header)
            exchange.user = said and said[:LONGEST_NAME]

    async def _found(self, incoming: Incoming, exchange: Exchange) -> Caller | None:
        try:
            return self._access.caller(
                incoming.text_of,
                incoming.peer,
                incoming.all_of,
                fields=incoming.fields,
                is_http_1_0=b"connection" in incoming.fields and incoming.is_http_1_0,  # else it changes nothing
            )
        except Forbidden as refusal:
            _note(refusal, exchange)
            raise
        except InvalidKey:
            pass
        return await self._surely(incoming, exchange)

    async def _surely(self, incoming: Incoming, exchange: Exchange) -> Caller | None:
        """Before a key is refused, the store is heard once more."""
        try:
            return await self._access.sure_caller(
                incoming.text_of,
                incoming.peer,
                incoming.all_of,
                fields=incoming.fields,
                is_http_1_0=b"connection" in incoming.fields and incoming.is_http_1_0,  # else it changes nothing
            )
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
        return body.changed(cache_salt=salt, imposes_salt=True)

    def check_model(self, caller: Caller | None, asked: str, model: str) -> None:
        """Raises Forbidden where *caller* may not ask for *asked*, which stands for the model configured as *model*."""
        if caller is not None:
            caller.permits.check_model(asked, model)

    def check_background(self, caller: Caller | None, model: Model) -> None:
        """Let a request of *caller* pass whose answer *model* is to generate in the background.

        Raises:
            InvalidField: it may not: what is generated there is not seen, so that no limit would count it.
        """
        if caller is not None and not model.allows_background:
            raise InvalidField(
                "'background' is not allowed for this model, as limits cannot count what is generated there: leave it "
                "out, or have models[].allow_background set",
                param="background",
            )

    def reserve_at_once(
        self, exchange: Exchange, caller: Caller | None, model: Model, body: Body, request: Request
    ) -> "Asked | None":
        """Take what *request* is expected to use of all limits of *caller*, or nothing at all.

        None: that is done. Else something has to be waited for, by `reserve`, and nothing was taken.

        Raises:
            RateLimited, QuotaSpent: a limit has no room.
        """
        prompt_tokens = exchange.prompt_tokens = request.prompt_tokens
        exchange.model_asked = body.model[:LONGEST_NAME]
        if caller is None:
            return None
        if not exchange.user:
            exchange.user = body.user and body.user[:LONGEST_NAME]
        max_tokens = body.max_tokens
        ask = Ask(prompt_tokens, max_tokens=max_tokens, choices=body.n, generates=max_tokens != 0)
        asked = Asked(self._recorder, exchange, caller, model, ask)
        asked.in_background = body.background
        try:
            reservation = self._quota.reserve_at_once(caller, model.metered, ask, asked)
        except (RateLimited, QuotaSpent) as refusal:
            exchange.refused_by = refusal.refused_by
            raise
        if reservation is None:
            return asked
        asked.has(reservation)
        self._warn(asked)
        return None

    async def reserve(self, asked: "Asked") -> None:
        """What `reserve_at_once` had to leave.

        Raises:
            RateLimited, QuotaSpent: a limit has no room.
            StoreAway: limits cannot be counted.
        """
        try:
            metered = _NO_MODEL if asked.model is None else asked.model.metered
            asked.has(await self._quota.reserve(asked.caller, metered, asked.ask, asked))
        except (RateLimited, QuotaSpent) as refusal:
            asked.exchange.refused_by = refusal.refused_by
            raise
        self._warn(asked)

    def _warn(self, asked: "Asked") -> None:
        """Have the answer say which soft budgets of the caller are passed."""
        soft_budgets = self._soft_budgets
        if soft_budgets.passed:
            model = "" if asked.model is None else asked.model.name
            asked.exchange.limits_left += soft_budgets.headers_of(asked.caller, model)

    async def reserve_look(self, exchange: Exchange, caller: Caller, model: Model | None) -> None:
        """Take one request of all limits of *caller*, and no tokens: for a look at what a worker of *model* keeps.

        Without *model* it takes one of the limits that hold for all models: nobody knows what is asked for.

        Raises:
            RateLimited, QuotaSpent: a limit has no room.
            StoreAway: limits cannot be counted.
        """
        ask = Ask(0.0, max_tokens=0, choices=1, generates=False)
        await self.reserve(Asked(self._recorder, exchange, caller, model, ask))

    def begin_stream(self, exchange: Exchange, stream: Stream) -> None:
        """*stream*, the answer of *exchange*, may be stopped from now on if a budget is spent."""
        if exchange.account is not None:
            self._overspending.begin(stream, exchange.account.reservation)

    def end_stream(self, exchange: Exchange, stream: Stream) -> None:
        """It is over."""
        if exchange.account is None:
            return
        self._overspending.end(stream, exchange.account.reservation.team)
        stopped = stream.stopped
        if isinstance(stopped, QuotaSpent):
            exchange.refused_by = stopped.refused_by

    def settle(self, exchange: Exchange, now: float) -> None:
        """*exchange* ended at *now* (monotonic): count and book what it used, if anything is due."""
        account = exchange.account
        if account is None:
            return
        exchange.account = None
        reservation = account.reservation
        outcome, used = _used(exchange, account, now)
        price = exchange.price or (_FREE if account.model is None else account.model.price)
        cost_nano = to_nano(price.cost_usd(used.prompt, used.cached, used.completion))
        saved_nano = to_nano(price.saved_usd(used.cached))
        cost_usd = exchange.cost_usd = cost_nano / NANO
        exchange.saved_usd = saved_nano / NANO
        # At once, and not when it is written: so of the request nothing but this is kept until then.
        entry = _entry(
            self._recorder,
            exchange,
            account.caller,
            outcome=outcome,
            used=used,
            cost_nano=cost_nano,
            saved_nano=saved_nano,
            now=now,
        )
        self._quota.settle(reservation, outcome, used, cost_usd, entry, counts=exchange.error == _GUESSED)


class Asked(Account):
    """What a request asks of the limits of its caller. It makes the entry of one that was never settled."""

    __slots__ = ("_recorder", "ask", "exchange")

    def __init__(self, recorder: Recorder, exchange: Exchange, caller: Caller, model: Model | None, ask: Ask) -> None:
        super().__init__(caller, model)
        self._recorder = recorder
        self.exchange = exchange
        self.ask = ask

    def has(self, reservation: Reservation) -> None:
        """It was granted: from now on there is something to settle."""
        self.reservation = reservation
        self.exchange.account = self
        self.exchange.limits_left = reservation.headers

    def __call__(self, expected: Tokens) -> Entry:
        """As it stands when that is found out."""
        exchange, price = self.exchange, _FREE if self.model is None else self.model.price
        return _entry(
            self._recorder,
            exchange,
            self.caller,
            outcome="lost",
            used=expected,
            cost_nano=to_nano(price.cost_usd(expected.prompt, expected.cached, expected.completion)),
            saved_nano=to_nano(price.saved_usd(expected.cached)),
            now=exchange.started,
        )


def _entry(
    recorder: Recorder,
    exchange: Exchange,
    caller: Caller,
    *,
    outcome: Outcome,
    used: Tokens,
    cost_nano: int,
    saved_nano: int,
    now: float,
) -> Entry:
    """*now* is monotonic."""
    first, started = exchange.first_byte, exchange.started
    return recorder.entry(
        at=recorder.now(),
        request_id=exchange.request_id.decode("ascii"),
        team=caller.team_name,
        project=caller.project,
        key=caller.key_id,
        user=exchange.user,
        model_asked=exchange.model_asked or "",
        model=exchange.model or "",
        backend=exchange.backend,
        outcome=outcome,
        status=exchange.status,
        prompt_tokens=int(used.prompt + 0.5),  # round() takes ten times as long
        cached_tokens=int(used.cached + 0.5),
        completion_tokens=int(used.completion + 0.5),
        cost_nano=cost_nano,
        saved_nano=saved_nano,
        fell_back=exchange.fell_back,
        ttft_s=None if first is None else first - started,
        duration_s=now - started,
    )


def _note(refusal: InvalidKey | Forbidden, exchange: Exchange) -> None:
    """Who was refused, if its secret was right."""
    if refusal.whose is not None:
        exchange.team, exchange.key = refusal.whose


def _used(exchange: Exchange, account: Account, now: float) -> tuple[Outcome, Tokens]:
    """How the request ended, *now*, and what it used."""
    reservation = account.reservation
    if account.in_background and exchange.attempts and (exchange.usage is None or not exchange.streams):
        # The worker may go on however this ended, and what it says before its end counts for nothing.
        outcome: Outcome = "ok" if exchange.error is None else "aborted" if exchange.error in _CUT else "failed"
        if outcome != "failed" or exchange.streamed_events:
            return outcome, _longest(exchange, reservation)
    if exchange.error is None:
        usage = exchange.usage
        if usage is None:
            return "ok", _seen(exchange, account, None)
        return "ok", Tokens(usage.prompt_tokens, usage.cached_tokens or 0, usage.completion_tokens)
    if exchange.error in _CUT:
        return "aborted", _seen(exchange, account, now) if exchange.attempts else _NOTHING
    return "failed", _seen(exchange, account, None) if exchange.streamed_events else _NOTHING


def _longest(exchange: Exchange, reservation: Reservation) -> Tokens:
    """The prompt, and the longest answer that is possible."""
    prompt = round(exchange.prompt_tokens)
    return Tokens(prompt, min(prompt, int(exchange.hit_tokens)), reservation.most_completion)


def _seen(exchange: Exchange, account: Account, aborted: float | None) -> Tokens:
    """Without the engine's count: the prompt, and an event of the stream for each token.

    Of an answer that was to come whole nobody saw how much was generated: if it was *aborted* at that moment, what the
    engine had the time for at its rate of late; else, or where that is not known, what was expected.
    """
    if exchange.usage is not None:
        return Tokens(exchange.usage.prompt_tokens, exchange.usage.cached_tokens or 0, exchange.usage.completion_tokens)
    prompt = round(exchange.prompt_tokens)
    if exchange.streams:
        completion = float(exchange.streamed_events)
    else:
        reservation = account.reservation
        generated = None if aborted is None else _generated(exchange, account, aborted)
        completion = reservation.expected.completion if generated is None else generated * reservation.choices
        exchange.estimated_tokens = int(min(completion, reservation.most_completion) + 0.5)
        completion = float(exchange.estimated_tokens)
    return Tokens(prompt, min(prompt, int(exchange.hit_tokens)), completion)


def _generated(exchange: Exchange, account: Account, now: float) -> float | None:
    """Tokens of one answer that a worker may have generated from when it was asked until *now*; None: nobody can say.

    Part of that time the request may have waited, or its prompt been read: it is no less than what was generated.
    """
    if exchange.sent_at is None or exchange.backend is None or exchange.served_by != "worker" or account.model is None:
        return None
    gap_s = account.model.fleet.usual_gap_s(WorkerId(exchange.backend))
    return None if not gap_s else (now - exchange.sent_at) / gap_s
