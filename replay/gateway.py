"""The objects that route in production, as one more policy."""

from collections.abc import Sequence

import numpy as np

from cache_index import Prefix, RadixTree, WorkerId
from cache_index.confirmed import Confirmed
from cache_index.event import Event, Removed, Stored, Tier
from cache_index.residency import Residency
from cache_index.tokens import TokenHasher, TokenIds, pack, scope_of
from replay.policy import Ask, Setup, Usage
from routing.booking import Booking, Ending, Outcome
from routing.dispatcher import Dispatch, Dispatcher, Immediate
from routing.fleet import Fleet
from routing.learning.load_rates import TierPrices
from routing.queueing.late_binding import LateBinding
from routing.queueing.release_policy import ReleasePolicy
from routing.request import BATCH, Request
from routing.strategies import STRATEGIES
from routing.strategies.by_name import StrategiesByName

BYTES_PER_TOKEN = 4
"""Bytes per token that a fleet assumes at first, so a block of the index is a block of the trace."""
TICK_S = 2.0
"""Less than a prediction lasts, as in production."""
MODEL = "replayed"
SCOPE = scope_of(MODEL)


class Gateway:
    """A `Policy`: fleet, dispatcher, strategy and indexes, as a model of a gateway has them.

    Every block of a trace is as many tokens as it would have: its id, over and over. They go through the same hashing
    as a prompt's exact tokens and those of an engine's events.
    """

    def __init__(
        self,
        setup: Setup,
        strategy: str,
        *,
        knows_host: bool = True,
        knows_blocks: bool = True,
        release: ReleasePolicy | None = None,
    ) -> None:
        """Ignore the events of host tiers if *knows_host* is false, and all KV events if *knows_blocks* is false."""
        self._workers = [WorkerId(str(number)) for number in range(setup.workers)]
        self._block_tokens = setup.block_tokens
        self._hasher = TokenHasher(bytes(32))
        self._confirmed = (
            Confirmed(Residency(self._hasher, max_bytes=2**40))
            if knows_blocks and STRATEGIES[strategy].needs_events
            else None
        )
        if self._confirmed is not None and knows_host:
            setup.host_events.subscribe(self)
        self._fleet = Fleet(
            RadixTree(max_bytes=2**40, default_capacity=setup.capacity_blocks),
            confirmed=self._confirmed,
            tier_prices=TierPrices() if setup.load_price is None else TierPrices(cpu=setup.load_price),
            block_bytes=setup.block_tokens * BYTES_PER_TOKEN,
            prefill_tokens_per_s=setup.prefill_tokens_per_s,
        )
        self._fleet.set_workers(self._workers, 0.0)
        for worker in self._workers:
            self._fleet.set_capacity(worker, blocks=setup.capacity_blocks, block_size=setup.block_tokens)
            if setup.pulls:
                self._fleet.set_host_tokens(dict.fromkeys(self._workers, setup.host_blocks * setup.block_tokens))
            self._fleet.set_trusted(worker, trusted=self._confirmed is not None)
        strategies = StrategiesByName(strategy, lambda name: STRATEGIES[name](setup.rng))
        self._dispatcher: Dispatcher = (
            LateBinding(self._fleet, strategies, setup.rng, release)
            if STRATEGIES[strategy].is_late_bound
            else Immediate(self._fleet, strategies)
        )
        self._ask_of: dict[int, Ask] = {}
        self._bookings: dict[Ask, Booking] = {}
        self._lines: dict[Ask, Request] = {}
        self._next_tick = TICK_S
        self._may_pull = setup.pulls
        self._pulls = setup.pulled_from

    @property
    def fleet(self) -> Fleet:
        return self._fleet

    @property
    def waiting(self) -> int:
        """Number of requests that wait for a worker."""
        return self._dispatcher.waiting

    def submit_line(self, ask: Ask, worker: WorkerId, now: float, *, yields_in_s: float | None = None) -> None:
        """Submit *ask* as a line of a batch, which only *worker* may answer. The next `poll` releases it."""
        request = self._request(ask).changed(
            allowed=frozenset([worker]), priority=BATCH, streams=False, yields_in_s=yields_in_s
        )
        self._ask_of[id(request)] = ask
        self._lines[ask] = request  # an id stays unique as long as its request lives
        self._dispatcher.submit(request, now)

    def submit(self, ask: Ask, now: float) -> None:
        request = self._request(ask)
        self._ask_of[id(request)] = ask
        self._dispatcher.submit(request, now)

    def poll(self, now: float) -> list[tuple[Ask, int]]:
        if now >= self._next_tick:
            self._fleet.tick(now)
            self._next_tick = now + TICK_S
        return [self._sent(dispatch) for dispatch in self._dispatcher.poll(now)]

    def next_poll_at(self, now: float) -> float | None:
        return self._dispatcher.next_poll_at(now)

    def first_token(self, ask: Ask, now: float) -> None:
        self._fleet.bookings.first_byte(self._bookings[ask], now)

    def finished(self, ask: Ask, usage: Usage, now: float) -> None:
        outcome = Outcome(Ending.ANSWERED, ask.prompt_tokens, usage.cached_tokens, usage.completion_tokens)
        self._lines.pop(ask, None)
        self._fleet.bookings.release(self._bookings.pop(ask), outcome, now)

    def interrupted(self, ask: Ask, now: float) -> None:
        """Note that a line that was sent is taken back."""
        self._lines.pop(ask, None)
        self._fleet.bookings.release(self._bookings.pop(ask), Outcome(Ending.ABORTED), now)

    def stored(self, worker: int, blocks: Sequence[int], parent: int | None, now: float) -> None:  # noqa: ARG002
        if self._confirmed is not None:
            # An id names a block and all before it, as an engine's hash does.
            self._apply(worker, Stored(list(blocks), parent, self._token_ids(blocks), self._block_tokens))

    def removed(self, worker: int, blocks: Sequence[int], now: float) -> None:  # noqa: ARG002
        self._apply(worker, Removed(list(blocks)))

    def host_stored(self, worker: int, blocks: Sequence[int], now: float) -> None:  # noqa: ARG002
        # An engine reports these by their hashes alone.
        self._apply(worker, Stored(list(blocks), None, b"", 0, Tier.CPU))

    def host_removed(self, worker: int, blocks: Sequence[int], now: float) -> None:  # noqa: ARG002
        self._apply(worker, Removed(list(blocks), Tier.CPU))

    def _apply(self, worker: int, event: Event) -> None:
        if self._confirmed is not None:
            self._confirmed.apply(self._workers[worker], event, model=MODEL)

    def _request(self, ask: Ask) -> Request:
        prompt_bytes = ask.prompt_tokens * BYTES_PER_TOKEN
        return Request(
            # An id names a block and all before it, which is all that a hash of a prefix has to do.
            Prefix(np.array(ask.blocks, np.uint64).tobytes()),
            prompt_bytes,
            # Estimates come out the same: here every token has as many bytes.
            float(ask.prompt_tokens),
            self._fleet.output_length.expected(None),
            session=ask.session,
            exact=() if self._confirmed is None else (self._exact(ask.blocks),),
            pulls=self._may_pull,
        )

    def _exact(self, blocks: Sequence[int]) -> Prefix:
        return self._hasher.prefix(self._token_ids(blocks), block_size=self._block_tokens, scope=SCOPE)

    def _token_ids(self, blocks: Sequence[int]) -> TokenIds:
        return np.frombuffer(pack(blocks), "<u4").repeat(self._block_tokens).tobytes()

    def _sent(self, dispatch: Dispatch) -> tuple[Ask, int]:
        assert dispatch.booking is not None, "no worker ever leaves"
        ask = self._ask_of.pop(id(dispatch.request))
        self._bookings[ask] = dispatch.booking
        pull = dispatch.order[0].pull
        if pull is not None:
            self._pulls[ask.number] = int(pull.source)
        return ask, int(dispatch.booking.worker)
