"""Order of waiting requests: by priority class, then by team, then by rank within the team.

1. The highest priority class goes first, except for a share that all lower classes have together. If a team has not
   been served for a long time, its oldest request moves up one class. The wait of the request itself does not matter,
   because a team that floods the queue also waits long. Lines of batches go after all other requests, without a share
   and without moving up.
2. Teams of one class share the fleet by weight, measured by the cost of their requests (see `ShareAccounts`). The
   number of waiting requests of one team has no effect on other teams.
3. The rank function of the caller decides the order of the requests within a team.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from routing.dispatcher import MIN_RETRY_S, Refusal
from routing.explanation import longest_wait_s
from routing.learning.throughput import Throughput
from routing.queueing.share_accounts import ShareAccounts
from routing.queueing.waiting import Waiting
from routing.request import BATCH, HIGH, LOW, Request

_BATCH_SHARE: Final = 0.001
"""Share of the throughput by which the wait of lines of batches is estimated while other requests wait."""

Rank = Callable[[Waiting], tuple[bool, float]]
"""Function that returns the rank of a waiting request. The request with the lowest rank is sent first."""


@dataclass(frozen=True, slots=True)
class Fairness:
    """Rules for sharing a fleet among teams."""

    max_waiting_per_team: int = 1024
    """Maximum number of waiting requests per team. Further requests are refused."""
    low_share: float = 0.1
    """Share of the throughput for all priority classes below the highest class with waiting requests."""
    starvation_s: float = 30.0
    """Seconds without service after which the oldest request of a team moves up one priority class."""


class _TeamQueue:
    """Waiting requests of one team in one priority class, in order of arrival."""

    __slots__ = ("served_at", "waiting")

    def __init__(self, now: float) -> None:
        self.waiting: dict[int, Waiting] = {}
        self.served_at = now
        """Time when the team was last served, or when its first request arrived."""

    @property
    def cost_s(self) -> float:
        return sum(each.cost_s for each in self.waiting.values())

    @property
    def oldest(self) -> Waiting:
        return next(iter(self.waiting.values()))

    def ahead_s(self, each: Waiting, rank: Rank) -> float:
        """Return the seconds of the team's queued work that is sent before the request *each*."""
        place = rank(each)
        return sum(other.cost_s for other in self.waiting.values() if other is not each and rank(other) <= place)


class _PriorityClass:
    """Teams with waiting requests of one priority class, in the order in which the teams began to wait."""

    def __init__(self) -> None:
        self.teams: dict[str, _TeamQueue] = {}
        self.accounts: ShareAccounts[str] = ShareAccounts()

    def add(self, each: Waiting, now: float) -> None:
        team = self.teams.get(each.team)
        if team is None:
            team = self.teams[each.team] = _TeamQueue(now)
        team.waiting[id(each.request)] = each

    def remove(self, each: Waiting) -> None:
        waiting = self.teams[each.team].waiting
        del waiting[id(each.request)]
        if not waiting:
            del self.teams[each.team]

    def starved(self, starvation_s: float, now: float) -> list[Waiting]:
        """Return the oldest request of each starved team, and restart these teams' starvation timers."""
        teams = [team for team in self.teams.values() if now - team.served_at >= starvation_s]
        for team in teams:
            team.served_at = now
        return [team.oldest for team in teams]

    def in_order(self, rank: Rank) -> Iterator[Waiting]:
        """Yield all requests of the priority class in service order, as if each one were served when it is yielded."""
        opened: dict[str, Iterator[Waiting]] = {}
        heap = [(self.accounts.account(team), place, team) for place, team in enumerate(self.teams)]
        heapq.heapify(heap)
        while heap:
            account, place, team = heap[0]
            if team not in opened:
                opened[team] = iter(sorted(self.teams[team].waiting.values(), key=rank))
            each = next(opened[team], None)
            if each is None:
                heapq.heappop(heap)
                continue
            yield each
            heapq.heapreplace(heap, (account + each.cost_s / each.weight, place, team))


class FairQueue:
    """Queue that determines the order of held requests and refuses requests. The queue does not know the workers.

    `in_order` sorts the requests of each team when the team's first request is due. It costs a few microseconds per
    yielded request.
    """

    def __init__(self, rules: Fairness = Fairness()) -> None:
        self._rules = rules
        self._waiting: dict[int, Waiting] = {}
        self._classes = {level: _PriorityClass() for level in range(BATCH, HIGH + 1)}
        self._accounts: ShareAccounts[int] = ShareAccounts()
        self._throughput = Throughput()
        self._gives_up_at = float("inf")
        self._may_spill: dict[int, Waiting] = {}
        """Waiting requests that a fallback is able to answer."""
        self.by_team: dict[str, int] = {}
        """Number of waiting requests by team. Teams without waiting requests are absent."""

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Waiting]:
        """Iterate over the waiting requests of the queue in order of arrival."""
        return iter(self._waiting.values())

    def add(self, each: Waiting, now: float) -> None:
        self._waiting[id(each.request)] = each
        self._classes[each.level].add(each, now)
        self.by_team[each.team] = self.by_team.get(each.team, 0) + 1
        self._gives_up_at = min(self._gives_up_at, each.gives_up_at)
        if each.spill_in_s is not None:
            self._may_spill[id(each.request)] = each

    def remove(self, request: Request) -> Waiting | None:
        """Remove *request* and return its queue entry, or None if it is not in the queue."""
        each = self._waiting.pop(id(request), None)
        if each is None:
            return None
        self._classes[each.level].remove(each)
        self._may_spill.pop(id(request), None)
        self.by_team[each.team] -= 1
        if not self.by_team[each.team]:
            del self.by_team[each.team]
        if not self._waiting:
            self._throughput.end()
            self._gives_up_at = float("inf")
        return each

    def served(self, team: str, level: int, weight: float, cost_s: float, now: float) -> None:
        """Charge the cost of a request to its team, even if it did not wait. Call this before its removal."""
        served = self._classes[level]
        served.accounts.charge(team, cost_s / weight)
        if self._waiting:
            if team in served.teams:
                served.teams[team].served_at = now
            self._accounts.charge(level, cost_s / self._shares(and_level=level)[level])
            self._throughput.sent(cost_s, now)

    def passed(self, *, is_saturated: bool) -> None:
        """Record that a pass over the queue has ended. *is_saturated* is true if no worker is free."""
        if is_saturated and self._waiting:
            self._throughput.begin()
        else:
            self._throughput.end()

    def in_order(self, now: float, rank: Rank) -> Iterator[Waiting]:
        """Yield all waiting requests in the order in which to send them, as if each one were served when it is yielded.

        The caller may remove the most recently yielded request during the iteration.
        """
        self._promote(now)
        shares = self._shares()
        if len(shares) == 1:
            yield from self._classes[next(iter(shares))].in_order(rank)
            return
        given = {level: self._classes[level].in_order(rank) for level in shares}
        accounts = {level: self._accounts.account(level) for level in shares if level != BATCH}
        while accounts:
            level = min(accounts, key=lambda level: (accounts[level], -level))
            each = next(given[level], None)
            if each is None:
                del accounts[level]
            else:
                yield each
                accounts[level] += each.cost_s / shares[level]
        if BATCH in given:
            yield from given[BATCH]

    def owed(self, rank: Rank) -> list[Waiting]:
        """Return the requests that no later arrival could overtake: the first request of each team with the lowest
        balance.

        Only the highest priority class that has ever been served has such requests.
        """
        for level in range(HIGH, BATCH - 1, -1):
            served = self._classes[level]
            if served.teams or served.accounts.is_used:
                owed = [team for name, team in served.teams.items() if served.accounts.stands_first(name)]
                return [min(team.waiting.values(), key=rank) for team in owed]
        return []

    def given_up(self, now: float) -> list[Refusal]:
        """Remove and return the waiting requests whose callers' deadlines have passed at *now*."""
        if now < self._gives_up_at:
            return []
        gone = [each for each in self._waiting.values() if each.gives_up_at <= now]
        for each in gone:
            self.remove(each.request)
        self._gives_up_at = min((each.gives_up_at for each in self._waiting.values()), default=float("inf"))
        return [Refusal(each.request, "too late", now - each.since, MIN_RETRY_S) for each in gone]

    def refusal(self, each: Waiting, rank: Rank, *, servers: int) -> Refusal | None:
        """Return the refusal of the new request *each*, or None if the queue can hold the request.

        Until the throughput is measured, each of *servers* workers counts as computing one prompt at a time, and no
        request counts as too late. The cost is linear in the requests of the team if *each* has a deadline.
        """
        team = self._classes[each.level].teams.get(each.team, _TeamQueue(0.0))
        if self.by_team.get(each.team, 0) >= self._rules.max_waiting_per_team:
            per_s = self._per_s(each, servers)
            first_s = min((other.cost_s for other in team.waiting.values()), default=each.cost_s) / per_s
            all_s = self._wait_s(team.cost_s, per_s, servers)
            return Refusal(each.request, "queue full", all_s, max(MIN_RETRY_S, first_s))
        deadline_s = each.gives_up_at - each.since
        if deadline_s == float("inf") or self._throughput.evidence < 1.0:
            return None
        allowed_s = longest_wait_s(deadline_s, each.min_s)
        wait_s = self._wait_s(team.ahead_s(each, rank), self._per_s(each, servers), servers)
        if wait_s <= allowed_s:
            return None
        return Refusal(each.request, "too late", wait_s, max(MIN_RETRY_S, wait_s - allowed_s))

    @property
    def may_spill(self) -> bool:
        """Whether a fallback is able to answer any of the waiting requests."""
        return bool(self._may_spill)

    def spill(self, each: Waiting, now: float, rank: Rank, *, servers: int) -> Refusal | None:
        """Remove the request *each* if its first token would be late and a fallback can answer it. Return its refusal,
        or None.

        *servers* is as in `refusal`. Until the throughput is measured, only the time already waited counts. The cost is
        linear in the number of waiting requests.
        """
        if id(each.request) not in self._may_spill:
            return None
        team = self._classes[each.level].teams[each.team]
        refusal = self._spill_refusal(
            each, self._wait_s(team.ahead_s(each, rank), self._per_s(each, servers), servers), now
        )
        if refusal is not None:
            self.remove(each.request)
        return refusal

    def spill_all(self, now: float, rank: Rank, *, servers: int) -> list[Refusal]:
        """Apply `spill` to all waiting requests. The cost is O(n log n) for n waiting requests."""
        refusals: list[Refusal] = []
        for level, team in dict.fromkeys((each.level, each.team) for each in self._may_spill.values()):
            refusals += self._spill_team(self._classes[level].teams[team], now, rank, servers)
        for refusal in refusals:
            self.remove(refusal.request)
        return refusals

    def _spill_team(self, team: _TeamQueue, now: float, rank: Rank, servers: int) -> Iterator[Refusal]:
        per_s, max_s = self._per_s(team.oldest, servers), self._everything_s(servers)
        ahead_s = 0.0
        for each in sorted(team.waiting.values(), key=rank):
            refusal = self._spill_refusal(each, min(ahead_s / per_s, max_s), now)
            if refusal is None:
                ahead_s += each.cost_s
            else:
                yield refusal

    def _spill_refusal(self, each: Waiting, left_s: float, now: float) -> Refusal | None:
        """Return a refusal if a request's first token is late after its wait so far and *left_s* more seconds."""
        if each.spill_in_s is None:
            return None
        wait_s = now - each.since + (left_s if self._throughput.evidence >= 1.0 else 0.0)
        allowed_s = longest_wait_s(each.spill_in_s, each.min_s)
        if wait_s <= allowed_s:
            return None
        return Refusal(each.request, "spill", wait_s, max(MIN_RETRY_S, wait_s - allowed_s))

    def _per_s(self, each: Waiting, servers: int) -> float:
        """Return the seconds of work per second that the team of *each* gets in competition with other teams."""
        teams = self._classes[each.level].teams
        others = sum(team.oldest.weight for name, team in teams.items() if name != each.team)
        share = each.weight / (each.weight + others)
        return self._throughput.per_s(float(max(1, servers))) * share * self._shares(and_level=each.level)[each.level]

    def _wait_s(self, ahead_s: float, per_s: float, servers: int) -> float:
        """Return the seconds until *ahead_s* seconds of a team's work are sent, at most the time for all work."""
        return min(ahead_s / per_s, self._everything_s(servers))

    def _everything_s(self, servers: int) -> float:
        """Return the seconds until all waiting requests of the queue are sent."""
        work_s = sum(each.cost_s for each in self._waiting.values())
        return work_s / self._throughput.per_s(float(max(1, servers)))

    def _shares(self, and_level: int | None = None) -> Mapping[int, float]:
        """Return the share of each priority class that has waiting requests, and of *and_level*, highest first."""
        shares: dict[int, float] = {}
        left = 1.0
        for level in range(HIGH, LOW - 1, -1):
            if self._classes[level].teams or level == and_level:
                shares[level] = left * (1.0 - self._rules.low_share)
                left *= self._rules.low_share
        if shares:
            shares[next(reversed(shares))] += left
        if self._classes[BATCH].teams or and_level == BATCH:
            shares[BATCH] = _BATCH_SHARE if shares else 1.0
        return shares

    def _promote(self, now: float) -> None:
        """Move the oldest request of each starved team up one priority class."""
        for level in range(LOW, HIGH):
            for each in self._classes[level].starved(self._rules.starvation_s, now):
                self._classes[level].remove(each)
                each.level += 1
                self._classes[each.level].add(each, now)
