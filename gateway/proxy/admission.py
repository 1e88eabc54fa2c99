"""Authenticate callers, check their permissions, reserve their estimated usage, and charge requests for actual usage.

1. A request is not charged if it is refused, or fails before its caller has received anything.
2. A reservation is settled exactly once, however the request ends. The final usage is the usage that the engine
   reports, or else an estimate from the prompt and the streamed events.
3. If no teams are configured, every request is admitted and no usage is counted.
"""

from collections.abc import Callable
from typing import Final, Literal

from cache_index import WorkerId
from gateway.models.model import Model
from gateway.protocol.body import Body
from gateway.protocol.errors import (
    Forbidden,
    InvalidField,
    InvalidKey,
    QuotaSpent,
    RateLimited,
    Stopping,
    UnknownResponse,
)
from gateway.protocol.request_hints import MAX_NAME_LENGTH, short_name
from gateway.protocol.usage import Usage
from gateway.proxy.exchange import Account, Exchange
from gateway.proxy.incoming import CallerGone, Incoming
from gateway.tenancy.ledger.entry import NANO, Draft, Entry, no_entry
from gateway.tenancy.ledger.price import Price
from gateway.tenancy.ledger.record import Outcome
from gateway.tenancy.ledger.recorder import Recorder, to_nano
from gateway.tenancy.quota.overspending import Overspending, Stream
from gateway.tenancy.quota.plan import Metered, Tokens
from gateway.tenancy.quota.quota import Ask, Quota, Reservation
from gateway.tenancy.quota.soft_budgets import SoftBudgets
from gateway.tenancy.teams.access import Access
from gateway.tenancy.teams.cache_salt import isolated_salt
from gateway.tenancy.teams.caller import Caller
from routing.request import Request

HitHeaders = Literal["own", "shared", "off"]
"""Callers that are allowed to see cache hits: only callers of teams with an isolated cache (`own`), all callers
(`shared`), or none (`off`).
"""

_NOTHING: Final = Tokens(0, 0, 0)
CUT: Final = frozenset({CallerGone.__name__, Stopping.__name__})
"""Error names of requests that were cut short. These requests are charged for the tokens that were generated."""
_GUESSED: Final = UnknownResponse.__name__
"""Error name of requests for an unknown response id. They count against request limits, so that callers cannot guess
many ids.
"""
_FREE: Final = Price()
_NO_MODEL: Final = Metered("", _FREE.cost_usd)
"""Placeholder for an unknown model. Requests for it count only against limits that apply to all models."""


class Admission:
    """Admission of requests before dispatch, and the recording of their usage when they end."""

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
        cost_header: bool = False,
    ) -> None:
        """Create the object. The function *pepper* returns the secret for key digests. *hit_headers* selects the
        callers that see predicted cache hits. All callers see the cost of an answer if *cost_header* is true.
        """
        self._access = access
        self._quota = quota
        self._recorder = recorder
        self._overspending = overspending
        self._soft_budgets = soft_budgets
        self._pepper = pepper
        self._user_header = user_header
        self._hit_headers: HitHeaders = hit_headers
        self._cost_header = cost_header

    def known(self, incoming: Incoming, exchange: Exchange) -> Caller | None:
        """Return the caller if an earlier request on the same connection was authenticated. Otherwise, return None, so
        that `caller` must be called.
        """
        caller = self._access.known(incoming.fields)
        if caller is not None:
            self._note_caller(caller, incoming, exchange)
        return caller

    async def caller(self, incoming: Incoming, exchange: Exchange) -> Caller | None:
        """Authenticate and return the caller, or return None if no teams are configured. Raise the errors of
        `Access.caller`.
        """
        caller = await self._authenticated(incoming, exchange)
        if caller is not None:
            self._access.mark(incoming.fields, caller)
            self._note_caller(caller, incoming, exchange)
        elif self._hit_headers == "off":
            exchange.shows_hits = False
        return caller

    def _note_caller(self, caller: Caller, incoming: Incoming, exchange: Exchange) -> None:
        exchange.team = caller.team_name
        exchange.key = caller.key_id
        if caller.is_batch:
            exchange.entries = incoming.entries
        if self._hit_headers != "shared":  # a hit on a prompt of another team shows how much of it was guessed
            exchange.shows_hits = self._hit_headers == "own" and caller.team.isolated_cache
        if caller.end_user is not None:  # a verified token takes precedence over what a client says
            exchange.user = caller.end_user
        elif self._user_header in incoming.fields:
            said = incoming.text_of(self._user_header)
            exchange.user = said and short_name(said)

    async def _authenticated(self, incoming: Incoming, exchange: Exchange) -> Caller | None:
        try:
            return self._access.caller(
                incoming.text_of,
                incoming.peer,
                incoming.all_of,
                fields=incoming.fields,
                is_http_1_0=b"connection" in incoming.fields and incoming.is_http_1_0,  # else it does not matter
            )
        except Forbidden as refusal:
            _note_refused(refusal, exchange)
            raise
        except InvalidKey:
            pass
        return await self._confirmed_caller(incoming, exchange)

    async def _confirmed_caller(self, incoming: Incoming, exchange: Exchange) -> Caller | None:
        """Look up an API key in the store before it is rejected, because it might be new, and return the caller."""
        try:
            return await self._access.sure_caller(
                incoming.text_of,
                incoming.peer,
                incoming.all_of,
                fields=incoming.fields,
                is_http_1_0=b"connection" in incoming.fields and incoming.is_http_1_0,  # else it does not matter
            )
        except (InvalidKey, Forbidden) as refusal:
            _note_refused(refusal, exchange)
            raise

    def isolated(self, body: Body, caller: Caller | None) -> Body:
        """Return *body* with a cache salt for the caller's team if the team has an isolated cache. Otherwise, return
        *body* unchanged.
        """
        if caller is None or not caller.team.isolated_cache:
            return body
        salt = isolated_salt(caller.team.name, self._pepper())
        if body.cache_salt:
            salt = f"{salt}.{body.cache_salt}"
        return body.changed(cache_salt=salt, imposes_salt=True)

    def check_model(self, caller: Caller | None, asked: str, model: str) -> None:
        """Raise Forbidden if *caller* is not allowed to use *model*, which has the name *asked* in the request."""
        if caller is not None:
            caller.permits.check_model(asked, model)

    def check_background(self, caller: Caller | None, model: Model) -> None:
        """Raise an error unless *model* is allowed to generate answers for *caller* in the background.

        Raises:
            InvalidField: if the model may not. The gateway does not see the tokens of background answers, so no limit
                would count them.
        """
        if caller is not None and not model.allows_background:
            raise InvalidField(
                "The field 'background' is not allowed for this model, because limits cannot count its tokens. "
                "Omit the field, or set models[].allow_background.",
                param="background",
            )

    def reserve_at_once(
        self, exchange: Exchange, caller: Caller | None, model: Model, body: Body, request: Request
    ) -> "PendingReservation | None":
        """Reserve the estimated usage of *request* against all limits of *caller* without waiting.

        Return None if the usage is reserved or *caller* is None. Otherwise nothing is reserved, and the caller of this
        method passes the returned object to `reserve`, which waits for the store.

        Raises:
            RateLimited, QuotaSpent: if a limit has no room for the request.
        """
        prompt_tokens = exchange.prompt_tokens = request.prompt_tokens
        exchange.model_asked = body.model[:MAX_NAME_LENGTH]
        exchange.shows_cost = self._cost_header and not body.background  # the worker may generate more than it reports
        if caller is None:
            return None
        if not exchange.user:
            exchange.user = body.user and short_name(body.user)
        max_tokens = body.max_tokens
        ask = Ask(
            prompt_tokens,
            max_tokens=max_tokens,
            choices=body.n,
            generates=max_tokens != 0,
            user=exchange.user,
            session=request.session,
        )
        pending = PendingReservation(self._recorder, exchange, caller, model, ask)
        pending.in_background = body.background
        try:
            reservation = self._quota.reserve_at_once(caller, model.metered, ask, pending)
        except (RateLimited, QuotaSpent) as refusal:
            exchange.refused_by = refusal.refused_by
            raise
        if reservation is None:
            return pending
        pending.granted(reservation)
        self._warn(pending)
        return None

    async def reserve(self, pending: "PendingReservation") -> None:
        """Wait for the store and make the reservation for which `reserve_at_once` would have to wait.

        Raises:
            RateLimited, QuotaSpent: if a limit has no room for the request.
            StoreUnavailable: if the store that counts usage is not available.
        """
        try:
            metered = _NO_MODEL if pending.model is None else pending.model.metered
            pending.granted(await self._quota.reserve(pending.caller, metered, pending.ask, pending))
        except (RateLimited, QuotaSpent) as refusal:
            pending.exchange.refused_by = refusal.refused_by
            raise
        self._warn(pending)

    def _warn(self, pending: "PendingReservation") -> None:
        """Add response headers about the soft budgets that the caller has exceeded."""
        soft_budgets = self._soft_budgets
        if soft_budgets.passed:
            model = "" if pending.model is None else pending.model.name
            pending.exchange.limits_left += soft_budgets.headers_of(pending.caller, model)

    async def reserve_kept_answer(  # noqa: PLR0917  # in the order in which they are known
        self, exchange: Exchange, caller: Caller | None, model: Model, body: Body, session: str | None, usage: Usage
    ) -> None:
        """Reserve one request with *usage* against all limits of *caller*, of its end user and of its *session*, for
        an answer that needs no worker.

        Raises:
            RateLimited, QuotaSpent: if a limit has no room for the request.
            StoreUnavailable: if the store that counts usage is not available.
        """
        exchange.model_asked = body.model[:MAX_NAME_LENGTH]
        exchange.shows_cost = self._cost_header
        if caller is None:
            return
        if not exchange.user:
            exchange.user = body.user and short_name(body.user)
        ask = Ask(
            float(usage.prompt_tokens),
            max_tokens=usage.completion_tokens,
            choices=1,
            generates=usage.completion_tokens > 0,
            user=exchange.user,
            session=session,
        )
        await self.reserve(PendingReservation(self._recorder, exchange, caller, model, ask))

    async def reserve_look(self, exchange: Exchange, caller: Caller, model: Model | None) -> None:
        """Reserve one request without tokens against all limits of *caller*, for reading a response that a worker of
        *model* stores.

        If *model* is None, the response id is not known, and only limits for all models count the request.

        Raises:
            RateLimited, QuotaSpent: if a limit has no room for the request.
            StoreUnavailable: if the store that counts usage is not available.
        """
        ask = Ask(0.0, max_tokens=0, choices=1, generates=False, user=exchange.user)
        await self.reserve(PendingReservation(self._recorder, exchange, caller, model, ask))

    def begin_stream(self, exchange: Exchange, stream: Stream) -> None:
        """Register the streamed answer *stream* of *exchange*, so that it is stopped when a budget is spent."""
        if exchange.account is not None:
            self._overspending.begin(stream, exchange.account.reservation)

    def end_stream(self, exchange: Exchange, stream: Stream) -> None:
        """Unregister the streamed answer *stream* of *exchange*."""
        if exchange.account is None:
            return
        self._overspending.end(stream, exchange.account.reservation.team)
        stopped = stream.stopped
        if isinstance(stopped, QuotaSpent):
            exchange.refused_by = stopped.refused_by

    def settle(self, exchange: Exchange, now: float) -> None:
        """Record the usage of *exchange* if it has a reservation. The request ended at *now*, in monotonic seconds."""
        account = exchange.account
        if account is None:
            return
        exchange.account = None
        reservation = account.reservation
        outcome, used = _used(exchange, account, now)
        price = exchange.price or (_FREE if account.model is None else account.model.pricing.current)
        share = account.price_share if account.caller.is_batch and not exchange.fell_back else 1.0
        cost_nano = to_nano(price.cost_usd(used.prompt, used.cached, used.completion) * share)
        saved_nano = to_nano(price.saved_usd(used.cached) * share)
        cost_usd = exchange.cost_usd = cost_nano / NANO
        exchange.saved_usd = saved_nano / NANO
        # The entry is made now and not when it is written, so that the rest of the request can be freed.
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
        draft: Draft = entry
        if exchange.entries is not None:
            exchange.entries.append(entry)
            draft = no_entry
        self._quota.settle(reservation, outcome, used, cost_usd, draft, counts=exchange.error == _GUESSED)


class PendingReservation(Account):
    """Request whose reservation waits for the store. The object also creates a ledger entry if the request is never
    settled.
    """

    __slots__ = ("_recorder", "ask", "exchange")

    def __init__(self, recorder: Recorder, exchange: Exchange, caller: Caller, model: Model | None, ask: Ask) -> None:
        super().__init__(caller, model)
        self._recorder = recorder
        self.exchange = exchange
        self.ask = ask

    def granted(self, reservation: Reservation) -> None:
        """Attach *reservation* to the request after the store has granted it."""
        self.reservation = reservation
        self.exchange.account = self
        self.exchange.limits_left = reservation.headers

    def __call__(self, expected: Tokens) -> Entry | None:
        """Return the ledger entry of a request that was never settled, with the *expected* tokens as usage. Return None
        if the sender of the request writes the entry.
        """
        if self.exchange.entries is not None:
            return None
        exchange, price = self.exchange, _FREE if self.model is None else self.model.pricing.current
        return _entry(
            self._recorder,
            exchange,
            self.caller,
            outcome="lost",
            used=expected,
            cost_nano=to_nano(price.cost_usd(expected.prompt, expected.cached, expected.completion) * self.price_share),
            saved_nano=to_nano(price.saved_usd(expected.cached) * self.price_share),
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
    """Return the ledger entry of a request that ended at *now*, in monotonic seconds."""
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


def _note_refused(refusal: InvalidKey | Forbidden, exchange: Exchange) -> None:
    """Record the team and key of a rejected caller if its secret was correct."""
    if refusal.whose is not None:
        exchange.team, exchange.key = refusal.whose


def _used(exchange: Exchange, account: Account, now: float) -> tuple[Outcome, Tokens]:
    """Return the outcome and the usage of a request that ended at *now*, in monotonic seconds."""
    reservation = account.reservation
    if account.in_background and exchange.attempts and (exchange.usage is None or not exchange.streams):
        # The worker may go on however the request ended, and its usage before its end does not count.
        outcome: Outcome = "ok" if exchange.error is None else "aborted" if exchange.error in CUT else "failed"
        if outcome != "failed" or exchange.streamed_events:
            return outcome, _longest(exchange, reservation)
    if exchange.error is None:
        usage = exchange.usage
        if usage is None:
            return "ok", _seen(exchange, account, None)
        return "ok", Tokens(usage.prompt_tokens, usage.cached_tokens or 0, usage.completion_tokens)
    if exchange.error in CUT:
        if exchange.interruption is not None and exchange.interruption.is_done:
            return "aborted", _NOTHING
        return "aborted", _seen(exchange, account, now) if exchange.attempts else _NOTHING
    return "failed", _seen(exchange, account, None) if exchange.streamed_events else _NOTHING


def _longest(exchange: Exchange, reservation: Reservation) -> Tokens:
    """Return the maximum number of tokens in the prompt and in the longest answer to the request."""
    prompt = round(exchange.prompt_tokens)
    return Tokens(prompt, min(prompt, int(exchange.hit_tokens)), reservation.most_completion)


def _seen(exchange: Exchange, account: Account, aborted: float | None) -> Tokens:
    """Return the engine's number of used tokens, or else the number of prompt tokens and streamed events.

    The tokens of an answer that is not streamed are estimated. For a request that was cut short at the monotonic time
    *aborted*, the estimate is the elapsed time multiplied by the engine's generation rate. If the request was not cut
    short or the rate is unknown, the estimate is that of the reservation.
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
    """Return the number of tokens that a worker can have generated for one answer until *now*, or None if unknown.

    The number is an upper bound, because the request may have waited, and its prompt was computed first.
    """
    if exchange.sent_at is None or exchange.backend is None or exchange.served_by != "worker" or account.model is None:
        return None
    gap_s = account.model.fleet.usual_gap_s(WorkerId(exchange.backend))
    return None if not gap_s else (now - exchange.sent_at) / gap_s
