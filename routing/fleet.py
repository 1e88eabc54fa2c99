"""The workers of one model and everything that is known of them.

What happens to requests is told here: booked, first byte, released. Strategies read it through candidates.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

from cache_index import CacheIndex, Prefix, WorkerId
from cache_index.confirmed import Confirmed
from routing.booking import Booking, Ending, Outcome
from routing.breaker import Breaker
from routing.candidate import Candidate, Excluded, Role, WhyNot
from routing.estimates import BytesPerToken, OutputLength
from routing.explanation import prefill_s
from routing.knowledge import Knowledge, ToldHit
from routing.neighbours import Neighbours
from routing.pools import Reach, reach
from routing.rates import Rates
from routing.request import Request
from routing.tiers import TierPrices
from routing.waiting import longest_wait_s
from routing.witness import Witness
from routing.worker import Worker


class Fleet:
    """Workers that serve one model.

    *index* is fed by what is sent where; *confirmed* by what engines tell of their caches, and counts for workers that
    are trusted and requests whose exact tokens are known. *block_bytes* is how much text one block of *index* covers.
    *lease_s* is how long a booking may last before it is held for lost. Where the workers are in several pools, the
    next one is used as well while those before it have *spill_backlog_s* seconds of prefill to do each. *witness* is
    told of every booking made here; what other gateways have given to the same workers comes by `book_elsewhere`.
    """

    def __init__(
        self,
        index: CacheIndex,
        *,
        confirmed: Confirmed | None = None,
        tier_prices: TierPrices = TierPrices(),  # noqa: B008  # frozen
        block_bytes: int,
        prefill_tokens_per_s: float = 2000.0,
        lease_s: float = 2100.0,
        breaker: Callable[[], Breaker] = Breaker,
        spill_backlog_s: float = 5.0,
        witness: Witness | None = None,
    ) -> None:
        self._index = index
        self._confirmed = confirmed
        self._tier_prices = tier_prices
        self._block_bytes = block_bytes
        self._rates = Rates(prefill_tokens_per_s=prefill_tokens_per_s)
        self._lease_s = lease_s
        self._breaker = breaker
        self._spill_backlog_s = spill_backlog_s
        self._witness = witness
        self._workers: dict[WorkerId, Worker] = {}
        self._tiers: Mapping[WorkerId, int] = {}
        self._ways_s: Mapping[WorkerId, float] = {}
        self._adapters_s: dict[WorkerId, float] = {}
        self._neighbours: Neighbours | None = None
        self._roles: Mapping[WorkerId, Role] = {}
        self.has_roles = False
        """Whether there are workers that do a part of a request only."""
        self.has_pools = False
        """Whether there are workers of more than one tier."""
        self._next_life = 0
        """Of workers that join: no worker that has left had it, whatever its name."""
        self._block_sizes: Sequence[int] = ()
        self.bytes_per_token = BytesPerToken()
        self.output_length = OutputLength()

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._workers.values())

    def worker(self, worker: WorkerId) -> Worker:
        """Raises ``KeyError`` for one that is not there, or has left."""
        return self._workers[worker]

    def set_workers(self, workers: Iterable[WorkerId], now: float, *, elsewhere: Container[WorkerId] = ()) -> None:
        """The whole set of workers there are. Those that left are forgotten; their requests may still be released.

        The index keeps what it has of those *elsewhere*: another fleet that shares it still has them.
        """
        wanted = dict.fromkeys(workers)
        for gone in [worker for worker in self._workers if worker not in wanted]:
            self._next_life = max(self._next_life, self._workers.pop(gone).life + 1)
            if gone not in elsewhere:
                self._index.drop(gone)
                if self._confirmed is not None:
                    self._confirmed.drop(gone)
        for worker in wanted:
            if worker not in self._workers:
                self._workers[worker] = Worker(
                    worker, now, breaker=self._breaker(), rates=self._rates, life=self._next_life
                )
        self.set_tiers(self._tiers)
        self.set_ways(self._ways_s)
        self.set_roles(self._roles)

    def set_tiers(self, tiers: Mapping[WorkerId, int]) -> None:
        """The pool of every worker that there is or will be; those that are not named are of the first, 0."""
        self._tiers = tiers
        for worker in self._workers.values():
            worker.tier = tiers.get(worker.id, 0)
        self.has_pools = len({worker.tier for worker in self._workers.values()}) > 1

    def set_ways(self, ways_s: Mapping[WorkerId, float]) -> None:
        """What requests to a worker cost more than those to a near one, of all that there are or will be; else 0."""
        self._ways_s = ways_s
        for worker in self._workers.values():
            worker.way_s = ways_s.get(worker.id, 0.0) + self._adapters_s.get(worker.id, 0.0)

    def set_adapter_s(self, worker: WorkerId, seconds: float) -> None:
        """What requests to *worker* cost more because it has to load their LoRA adapter first; 0: nothing."""
        self._adapters_s[worker] = seconds
        state = self._workers.get(worker)
        if state is not None:
            state.way_s = self._ways_s.get(worker, 0.0) + seconds

    def adapter_s(self, worker: WorkerId) -> float:
        """What `set_adapter_s` said last of *worker*."""
        return self._adapters_s.get(worker, 0.0)

    def set_neighbours(self, neighbours: Neighbours | None) -> None:
        """Who tells fleets that have workers in common with this one of its bookings; None: there are none."""
        self._neighbours = neighbours

    def own_in_flight(self, worker: WorkerId) -> int:
        """Requests of this model on *worker*, those of other gateways too; without those of other models."""
        state = self._workers.get(worker)
        if state is None:
            return 0
        return state.in_flight - (0 if self._neighbours is None else self._neighbours.beside(self, worker))

    def set_roles(self, roles: Mapping[WorkerId, Role]) -> None:
        """What each worker does, of all that there are or will be; those that are not named do whole requests."""
        self._roles = roles
        for worker in self._workers.values():
            worker.role = roles.get(worker.id, "both")
        self.has_roles = any(worker.role != "both" for worker in self._workers.values())

    def life(self, worker: WorkerId) -> int:
        """Another number each time that *worker* has come up again, or has joined again; -1 while it is not there."""
        state = self._workers.get(worker)
        return -1 if state is None else state.life

    def set_up(self, worker: WorkerId, *, up: bool) -> None:
        """What active health says. A worker that comes back is warmed up like a new one."""
        state = self._workers.get(worker)
        if state is None or state.is_up == up:
            return
        state.is_up = up
        if up:
            state.begin_life()

    def set_asleep(self, worker: WorkerId, *, asleep: bool) -> None:
        """What the engine says of itself. It drops its cache to fall asleep, and is warmed up when it wakes."""
        state = self._workers.get(worker)
        if state is None or state.is_asleep == asleep:
            return
        state.is_asleep = asleep
        if asleep:
            self._index.drop(worker)
            self._fit_capacity(worker)
        else:
            state.begin_life()

    def set_draining(self, worker: WorkerId, *, draining: bool) -> None:
        """What an operator wants: a worker that drains gets no requests, and ends those that it has."""
        state = self._workers.get(worker)
        if state is not None:
            state.is_draining = draining

    def restarted(self, worker: WorkerId) -> None:
        """The engine began a new life: its cache is empty. What it tells of its cache tells of that by itself."""
        self._index.drop(worker)
        self._fit_capacity(worker)
        state = self._workers.get(worker)
        if state is not None:
            state.begin_life()
            state.told_accuracy.forget()
            state.shadow_accuracy.forget()

    def set_trusted(self, worker: WorkerId, *, trusted: bool) -> None:
        """Whether what the engine tells of its cache is complete; until then predictions go by what was sent there."""
        state = self._workers.get(worker)
        if state is not None:
            state.is_trusted = trusted
            self._note_block_sizes()

    @property
    def block_sizes(self) -> Sequence[int]:
        """Tokens per block of the caches that engines tell of, each size once, the smallest first.

        As of the last `tick` or `set_trusted`: it is asked for with every request and hardly ever changes.
        """
        return self._block_sizes

    def token_times(self) -> tuple[float, float]:
        """Seconds of a worker's time for a prompt token that is computed, and for one that is generated.

        Those that are generated beside each other share the time between two of them.
        """
        busy = [worker.in_flight for worker in self if worker.in_flight]
        streams = sum(busy) / len(busy) if busy else 1.0
        return self._rates.prefill_s_per_token, self._rates.decode.predict(streams - 1.0) / streams

    @property
    def has_learnt(self) -> bool:
        """Whether what is predicted of times comes from any that were measured."""
        return self._rates.are_learnt

    def first_byte_in_s(self, booking: Booking, now: float) -> float | None:
        """In how many seconds from *now* the first byte of *booking* was to come, as it was predicted when it was
        booked: what stood before it there, and its own prefill. 0 if it is overdue.

        None if nobody can say: of an answer that does not stream, and until this fleet has learnt how fast it is.
        """
        if not booking.request.streams or not self._rates.are_learnt:
            return None
        return max(0.0, booking.booked_at + booking.wait_s + booking.work_s - now)

    def usual_gap_s(self, worker: WorkerId) -> float | None:
        """Seconds between two tokens of a stream of *worker* of late; None if nothing was measured, or it has left."""
        state = self._workers.get(worker)
        return None if state is None else state.usual_gap_s

    def told(self, worker: WorkerId, waiting: float, now: float) -> None:
        """The engine of *worker* tells that *waiting* requests are in its queue."""
        state = self._workers.get(worker)
        if state is not None:
            state.told(waiting, now)

    def set_capacity(self, worker: WorkerId, *, blocks: int, block_size: int) -> None:
        """The engine's cache has *blocks* blocks of *block_size* tokens."""
        state = self._workers.get(worker)
        if state is not None:
            state.engine_capacity = (blocks, block_size)
            self._fit_capacity(worker)

    def tick(self, now: float) -> list[Booking]:
        """To be called every few seconds: lost bookings expire and are answered, capacities follow the token ratio."""
        lost: list[Booking] = []
        self._note_block_sizes()
        for worker in self._workers.values():
            lost += worker.expire(now - self._lease_s, now)
            self._fit_capacity(worker.id)
            for booking in worker.pending:
                self._predict(worker.id, booking.request, now)
        if self._witness is not None:
            for booking in lost:
                self._witness.released(booking, Outcome(Ending.ABORTED))
        if self._neighbours is not None:
            for booking in lost:
                self._neighbours.ended(booking, now)
        return lost

    def candidates(self, request: Request, now: float) -> list[Candidate]:
        """Workers that are ready and not cut off by their breaker; if that leaves none, all that are ready.

        Of a pinned request: its worker, if that is ready.
        """
        ready = [worker for worker in self._workers.values() if worker.is_ready]
        if self.has_roles:
            ready = [worker for worker in ready if worker.role != "prefill"]
        if request.pinned is not None:
            ready = [worker for worker in ready if worker.id == request.pinned]
        workers = [worker for worker in ready if worker.breaker.allows(now)] or ready
        return self._as_candidates(workers, request, now)

    def prefill_candidates(self, request: Request, now: float) -> list[Candidate]:
        """Prefill workers that could compute the prompt of *request* for another: as `candidates` has them."""
        ready = [worker for worker in self._workers.values() if worker.is_ready and worker.role == "prefill"]
        workers = [worker for worker in ready if worker.breaker.allows(now)] or ready
        return self._as_candidates(workers, request, now)

    def cut_off(self, request: Request, now: float) -> list[Candidate]:
        """Workers that only their breaker keeps from *request*: better than nobody, when all others have failed it.

        The one with the least to do first.
        """
        ready = [w for w in self._workers.values() if w.is_answering and request.pinned in (None, w.id)]
        behind = [worker for worker in ready if not worker.breaker.allows(now)]
        return sorted(self._as_candidates(behind, request, now), key=lambda each: each.load.backlog_s)

    def reach(self, request: Request, candidates: list[Candidate], waits_s: Sequence[float] | None = None) -> Reach:
        """Which of its *candidates* a request may choose, pool by pool.

        *waits_s* is how long it would wait for each of them; None: for what each has to do.
        """
        if not self.has_pools:
            return Reach(candidates, [])
        longest_s = self._spill_backlog_s
        if request.spill_in_s is not None and candidates:
            longest_s = longest_wait_s(request.spill_in_s, min([prefill_s(request, each) for each in candidates]))
        if waits_s is None:
            waits_s = [candidate.load.backlog_s for candidate in candidates]
        tiers = [self._workers[candidate.worker].tier for candidate in candidates]
        return reach(candidates, tiers, waits_s, longest_s)

    def excluded(self, request: Request, now: float) -> list[Excluded]:
        """The workers that are no candidates for *request*, and why."""
        candidates = {candidate.worker for candidate in self.candidates(request, now)}
        others = [worker for worker in self._workers.values() if worker.id not in candidates]
        return [
            Excluded(candidate, _why_not(worker, request))
            for worker, candidate in zip(others, self._as_candidates(others, request, now), strict=True)
        ]

    def book(self, request: Request, candidate: Candidate, now: float) -> Booking | None:
        """Give *request* to the candidate: it counts as load, and its blocks as present, from this moment.

        None if the worker has left, went down, fell asleep or is being drained since it was ranked.
        """
        worker = self._workers.get(candidate.worker)
        if worker is None or not worker.is_ready:
            return None
        uncached = max(1.0, request.prompt_tokens - candidate.hit_tokens)
        work_s = worker.prefill_s(uncached) + candidate.load_s
        is_remote = candidate.remote_tokens > 0.0
        brings = self._index.record(worker.id, request.prefix) if request.writes_cache else 0
        self._predict(worker.id, request, now)
        booking = Booking(
            worker.id,
            request,
            brings,
            1.0 if is_remote else uncached,
            work_s,
            now,
            plain_tokens=candidate.plain_tokens,
            told_tokens=candidate.told_tokens,
            source=candidate.source,
            is_remote=is_remote,
        )
        worker.book(booking, now)
        if self._witness is not None:
            self._witness.booked(booking)
        if self._neighbours is not None:
            self._neighbours.booked(self, booking, now)
        return booking

    def first_byte(self, booking: Booking, now: float) -> None:
        """The first byte of a stream came. Of other answers nothing is to be told before their release."""
        worker = self._workers.get(booking.worker)
        if worker is not None and booking.request.streams:
            was_pending = worker.first_byte(booking, now)
            self._predict(worker.id, booking.request, now)
            if was_pending and self._witness is not None:
                self._witness.first_byte(booking)
            if was_pending and self._neighbours is not None:
                self._neighbours.began(booking, now)

    def release(self, booking: Booking, outcome: Outcome, now: float) -> None:
        """The request is over. Must be called once for every booking; what it taught is taken in."""
        worker = self._living(booking)
        if worker is not None:
            worker.release(booking, now)
        if self._witness is not None:
            self._witness.released(booking, outcome)
        if self._neighbours is not None:
            self._neighbours.ended(booking, now)
        if worker is None:
            return  # a worker that left and came back has nothing to learn from its former life
        if booking.life == worker.life:
            _tell(worker.breaker, booking, outcome, now)
        if outcome.ending is Ending.ANSWERED:
            self._answered(worker, booking, outcome, now)
        elif booking.is_uncomputed(failed=outcome.ending is Ending.FAILED):
            self._take_back(booking)

    # ---- what other gateways have given to the same workers

    def book_elsewhere(
        self,
        worker: WorkerId,
        prefix: Prefix,
        exact: tuple[Prefix, ...],
        *,
        uncached_tokens: float,
        output_tokens: float,
        streams: bool,
        now: float,
    ) -> Booking | None:
        """Another gateway has given a request to *worker*: it counts as load, and its blocks as present, from now on.

        *prefix* and *exact* are as in `Request`, hashed under the same key as here; without blocks where the worker
        will not hold them afterwards. Nothing is learnt from it. None if the worker is not there. O(1) as `book`.
        """
        state = self._workers.get(worker)
        if state is None:
            return None
        request = Request(
            prefix, 0, uncached_tokens, output_tokens, streams=streams, writes_cache=prefix.blocks > 0, exact=exact
        )
        brings = self._index.record(worker, prefix) if request.writes_cache else 0
        self._predict(worker, request, now)
        booking = Booking(
            worker, request, brings, uncached_tokens, state.prefill_s(uncached_tokens), now, is_elsewhere=True
        )
        state.book_elsewhere(booking, now)
        if self._neighbours is not None:
            self._neighbours.booked(self, booking, now)
        return booking

    def book_beside(self, booking: Booking, now: float) -> Booking | None:
        """A fleet that shares the worker of *booking* has given it that: it counts as load here too, and as no more.

        None if the worker is not here. O(1).
        """
        state = self._workers.get(booking.worker)
        if state is None:
            return None
        tokens, theirs = booking.uncached_tokens, booking.request
        request = Request(
            Prefix(b""), 0, tokens, theirs.output_tokens, streams=theirs.streams, reads_cache=False, writes_cache=False
        )
        copy = Booking(
            state.id,
            request,
            0,
            tokens,
            state.prefill_s(tokens),
            now,
            is_elsewhere=True,
            is_remote=booking.is_remote,
        )
        state.book_elsewhere(copy, now)
        return copy

    def first_byte_elsewhere(self, booking: Booking, now: float) -> None:
        """As `first_byte`, of what `book_elsewhere` or `book_beside` answered."""
        if self._neighbours is not None:
            self._neighbours.began(booking, now)
        worker = self._living(booking)
        if worker is not None:
            worker.first_byte_elsewhere(booking, now)
            self._predict(worker.id, booking.request, now)

    def release_elsewhere(self, booking: Booking, *, keep: bool, now: float, completion_tokens: int = 0) -> None:
        """It is over. *keep*: its prompt is in the worker's cache, with an answer of so many tokens behind it.

        Calling it again, or for a booking that has expired, releases nothing more.
        """
        if self._neighbours is not None:
            self._neighbours.ended(booking, now)
        worker = self._living(booking)
        if worker is None:
            return
        worker.release(booking, now)
        if not keep:
            self._take_back(booking)
        elif booking.request.writes_cache:
            self._index.record(worker.id, booking.request.prefix, output_blocks=self._output_blocks(completion_tokens))

    def forget_prompts(self) -> None:
        """Hashes are made under another key from now on: what was sent to workers cannot be found again."""
        for worker in self._workers:
            self._index.drop(worker)
            self._fit_capacity(worker)

    def _living(self, booking: Booking) -> Worker | None:
        """The worker that *booking* is on; None if it has left, be it that it came back."""
        worker = self._workers.get(booking.worker)
        return None if worker is None or booking.booked_at < worker.joined_at else worker

    def _take_back(self, booking: Booking) -> None:
        """Its prompt was not computed."""
        prefix = booking.request.prefix
        self._index.trim(booking.worker, prefix, prefix.blocks - booking.new_blocks)
        self._retract(booking)

    def _output_blocks(self, completion_tokens: int) -> int:
        return int(completion_tokens * self.bytes_per_token.ratio) // self._block_bytes

    def _answered(self, worker: Worker, booking: Booking, outcome: Outcome, now: float) -> None:
        worker.warmup.succeeded()
        request = booking.request
        output_blocks = 0
        if outcome.completion_tokens:
            self.output_length.learn(outcome.completion_tokens)
            output_blocks = self._output_blocks(outcome.completion_tokens)
        uncached = booking.uncached_tokens
        if outcome.prompt_tokens is not None:
            if request.writes_cache:
                self.bytes_per_token.learn(request.prompt_bytes, outcome.prompt_tokens)
            if outcome.cached_tokens is not None:
                uncached = max(1.0, float(outcome.prompt_tokens - outcome.cached_tokens))
                shows_hit = request.reads_cache and request.writes_cache and not booking.is_remote
                if shows_hit and worker.learn_hit(booking, float(outcome.cached_tokens)):
                    self._index.drop(worker.id)  # it was cleared
                    self._fit_capacity(worker.id)
        if request.writes_cache or outcome.cached_tokens is not None:  # else nobody knows how much was computed
            worker.learn(booking, now, uncached_tokens=uncached, completion_tokens=outcome.completion_tokens)
        if request.writes_cache:
            # An engine frees the blocks of a request when it ends: that is when they were used last.
            self._index.record(worker.id, request.prefix, output_blocks=output_blocks)

    def _as_candidates(self, workers: list[Worker], request: Request, now: float) -> list[Candidate]:
        knowledge = self._knowledge(request, workers, now)
        return [knowledge.candidate(worker, now) for worker in workers]

    def _knowledge(self, request: Request, workers: list[Worker], now: float) -> Knowledge:
        """What is known of the prompt of *request* in the caches of *workers*, looked up once."""
        told: dict[WorkerId, ToldHit] | None = None
        shadow: Mapping[WorkerId, int] = {}
        if request.reads_cache:
            if self._confirmed is not None and request.exact:
                told = {}
                for prefix in request.exact:
                    for worker, hit in self._confirmed.match(prefix, now).items():
                        told[worker] = ToldHit(hit, prefix.block_tokens)
            if told is None or not all([worker.is_confirmed for worker in workers]):  # noqa: C419  # faster
                shadow = self._index.match(request.prefix)
        tokens_per_block = self._block_bytes / self.bytes_per_token.ratio
        return Knowledge(request, told, shadow, tokens_per_block, self._tier_prices, index=self._index)

    def _predict(self, worker: WorkerId, request: Request, now: float) -> None:
        """*worker* will soon tell that it holds the prompt of *request*."""
        if self._confirmed is not None and request.writes_cache:
            for prefix in self._exact(worker, request):
                self._confirmed.predict(worker, prefix, now)

    def _retract(self, booking: Booking) -> None:
        if self._confirmed is not None and booking.request.writes_cache:
            for prefix in self._exact(booking.worker, booking.request):
                self._confirmed.retract(booking.worker, prefix, int(booking.told_tokens or 0) // prefix.block_tokens)

    def _exact(self, worker: WorkerId, request: Request) -> list[Prefix]:
        """The exact prompt of *request* in blocks of the size that *worker* has; none while that is not known."""
        size = self._block_size(worker) if request.exact else None
        return [prefix for prefix in request.exact if prefix.block_tokens == size]

    def _note_block_sizes(self) -> None:
        # Also of those that are not trusted, but tell: only predictions that come true show that they can be.
        sizes = {
            self._block_size(worker) if state.is_trusted else self._told_block_size(worker)
            for worker, state in self._workers.items()
        }
        self._block_sizes = sorted(size for size in sizes if size is not None)

    def _block_size(self, worker: WorkerId) -> int | None:
        """As its engine tells with its blocks, or until it has told of one, with its metrics."""
        told = self._told_block_size(worker)
        if told is not None:
            return told
        state = self._workers.get(worker)
        return state.engine_capacity[1] if state is not None and state.engine_capacity is not None else None

    def _told_block_size(self, worker: WorkerId) -> int | None:
        return self._confirmed.block_size(worker) if self._confirmed is not None else None

    def _fit_capacity(self, worker: WorkerId) -> None:
        """Engine blocks of tokens, in index blocks of text."""
        state = self._workers.get(worker)
        if state is not None and state.engine_capacity is not None:
            blocks, block_size = state.engine_capacity
            text_bytes = blocks * block_size * self.bytes_per_token.ratio
            self._index.resize(worker, int(text_bytes / self._block_bytes))


def _tell(breaker: Breaker, booking: Booking, outcome: Outcome, now: float) -> None:
    """How *booking* ended."""
    if outcome.ending is Ending.ANSWERED:
        breaker.succeeded(now, sent_at=booking.booked_at)
    elif outcome.ending is Ending.FAILED:
        breaker.failed(now, sent_at=booking.booked_at)
    else:
        breaker.showed_nothing(sent_at=booking.booked_at)


def _why_not(worker: Worker, request: Request) -> WhyNot:
    """Why *worker* is no candidate for *request*."""
    if worker.role == "prefill":
        return "a prefill worker"
    if request.pinned is not None and request.pinned != worker.id:
        return "not the worker that keeps the response"
    return worker.why_not_ready or "breaker open"
