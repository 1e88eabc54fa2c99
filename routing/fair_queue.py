"""Who goes first of those who wait before a saturated fleet: classes of priority, teams in them, requests in those.

1. The highest class goes first, save for a share that those below it have together. Where nothing of a team is served
   for long, its oldest request counts as one class higher: not for having waited itself, which is what a flood does.
2. Teams of one class take turns, by what their requests cost and what the teams weigh (`Turns`). How many requests a
   team has waiting makes no difference to the others.
3. Among the requests of one team the order is whoever asks for it.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from routing.dispatcher import LEAST_RETRY_S, Refusal
from routing.request import HIGH, Request
from routing.throughput import Throughput
from routing.turns import Turns
from routing.waiting import Waiting, longest_wait_s

Rank = Callable[[Waiting], tuple[bool, float]]
"""The least goes first."""


@dataclass(frozen=True, slots=True)
class Fairness:
    """How teams share."""

    most_waiting_per_team: int = 1024
    """More are refused."""
    low_share: float = 0.1
    """Of what is served, what all classes below the highest that waits get together."""
    starvation_s: float = 30.0
    """A team that waits and has nothing served for so long is put one class higher with its oldest request."""


class _Line:
    """What one team has waiting in one class, in the order in which it came there."""

    __slots__ = ("served_at", "waiting")

    def __init__(self, now: float) -> None:
        self.waiting: dict[int, Waiting] = {}
        self.served_at = now
        """Or since when it waits."""

    @property
    def cost_s(self) -> float:
        return sum(each.cost_s for each in self.waiting.values())

    @property
    def oldest(self) -> Waiting:
        return next(iter(self.waiting.values()))

    def ahead_s(self, each: Waiting, rank: Rank) -> float:
        """Work of those that go before *each*, which may be here or not."""
        place = rank(each)
        return sum(other.cost_s for other in self.waiting.values() if other is not each and rank(other) <= place)


class _Class:
    """Teams of one priority that have requests waiting, those first that began to wait first."""

    def __init__(self) -> None:
        self.lines: dict[str, _Line] = {}
        self.turns: Turns[str] = Turns()

    def add(self, each: Waiting, now: float) -> None:
        line = self.lines.get(each.team)
        if line is None:
            line = self.lines[each.team] = _Line(now)
        line.waiting[id(each.request)] = each

    def remove(self, each: Waiting) -> None:
        waiting = self.lines[each.team].waiting
        del waiting[id(each.request)]
        if not waiting:
            del self.lines[each.team]

    def starved(self, starvation_s: float, now: float) -> list[Waiting]:
        """The oldest of every team of which nothing was served for so long; it has begun to wait anew."""
        lines = [line for line in self.lines.values() if now - line.served_at >= starvation_s]
        for line in lines:
            line.served_at = now
        return [line.oldest for line in lines]

    def in_turn(self, rank: Rank) -> Iterator[Waiting]:
        """All of them, as if each were served in its turn."""
        opened: dict[str, Iterator[Waiting]] = {}
        heap = [(self.turns.account(team), place, team) for place, team in enumerate(self.lines)]
        heapq.heapify(heap)
        while heap:
            account, place, team = heap[0]
            if team not in opened:
                opened[team] = iter(sorted(self.lines[team].waiting.values(), key=rank))
            each = next(opened[team], None)
            if each is None:
                heapq.heappop(heap)
                continue
            yield each
            heapq.heapreplace(heap, (account + each.cost_s / each.weight, place, team))


class FairQueue:
    """Requests that wait. It neither sends them nor knows of workers.

    `in_turn` costs as much as sorting the requests of the teams that come up, and some microseconds for each that is
    taken from it.
    """

    def __init__(self, rules: Fairness = Fairness()) -> None:
        self._rules = rules
        self._waiting: dict[int, Waiting] = {}
        self._classes = [_Class() for _ in range(HIGH + 1)]
        self._turns: Turns[int] = Turns()
        self._throughput = Throughput()
        self._gives_up_at = float("inf")
        self._may_spill: dict[int, Waiting] = {}
        """Those that may go elsewhere."""
        self.by_team: dict[str, int] = {}
        """How many each team has here; none that has nobody."""

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Waiting]:
        """In the order in which they came."""
        return iter(self._waiting.values())

    def add(self, each: Waiting, now: float) -> None:
        self._waiting[id(each.request)] = each
        self._classes[each.level].add(each, now)
        self.by_team[each.team] = self.by_team.get(each.team, 0) + 1
        self._gives_up_at = min(self._gives_up_at, each.gives_up_at)
        if each.spill_in_s is not None:
            self._may_spill[id(each.request)] = each

    def remove(self, request: Request) -> Waiting | None:
        """It waits no longer; None if it did not."""
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
        """A request is sent, of those that wait or straight away; to be told before it is removed."""
        served = self._classes[level]
        served.turns.charge(team, cost_s / weight)
        if self._waiting:
            if team in served.lines:
                served.lines[team].served_at = now
            self._turns.charge(level, cost_s / self._shares(and_level=level)[level])
            self._throughput.sent(cost_s, now)

    def looked(self, *, is_saturated: bool) -> None:
        """All have been sent that can be; *is_saturated*: no worker is free. Else those who wait want others."""
        if is_saturated and self._waiting:
            self._throughput.begin()
        else:
            self._throughput.end()

    def in_turn(self, now: float, rank: Rank) -> Iterator[Waiting]:
        """All who wait, in the order in which they should be sent; each may be removed when it has been given.

        What follows is as if what was given had been served, whether it is removed or not.
        """
        self._promote(now)
        shares = self._shares()
        if len(shares) == 1:
            yield from self._classes[next(iter(shares))].in_turn(rank)
            return
        given = {level: self._classes[level].in_turn(rank) for level in shares}
        accounts = {level: self._turns.account(level) for level in shares}
        while accounts:
            level = min(accounts, key=lambda level: (accounts[level], -level))
            each = next(given[level], None)
            if each is None:
                del accounts[level]
            else:
                yield each
                accounts[level] += each.cost_s / shares[level]

    def owed(self, rank: Rank) -> list[Waiting]:
        """Those who will be next whoever else may come: the first of each team that has had less than all others.

        Only of the highest class that was ever served: somebody of a higher one would go before them.
        """
        for level in range(HIGH, -1, -1):
            teams = self._classes[level]
            if teams.lines or teams.turns.is_used:
                owed = [line for team, line in teams.lines.items() if teams.turns.stands_first(team)]
                return [min(line.waiting.values(), key=rank) for line in owed]
        return []

    def given_up(self, now: float) -> list[Refusal]:
        """Those whose callers have gone by *now*, as they said they would: an answer is of no use to them any more."""
        if now < self._gives_up_at:
            return []
        gone = [each for each in self._waiting.values() if each.gives_up_at <= now]
        for each in gone:
            self.remove(each.request)
        self._gives_up_at = min((each.gives_up_at for each in self._waiting.values()), default=float("inf"))
        return [Refusal(each.request, "too late", now - each.since, LEAST_RETRY_S) for each in gone]

    def refusal(self, each: Waiting, rank: Rank, *, servers: int) -> Refusal | None:
        """Why *each*, which is not here yet, should not be held; None: it may be.

        *servers* workers compute a prompt at a time each, which is believed until it is seen how many they do. As
        long as that was not seen, nobody is too late. O(requests of its team) if it has a deadline.
        """
        line = self._classes[each.level].lines.get(each.team, _Line(0.0))
        if self.by_team.get(each.team, 0) >= self._rules.most_waiting_per_team:
            per_s = self._per_s(each, servers)
            first_s = min((other.cost_s for other in line.waiting.values()), default=each.cost_s) / per_s
            all_s = self._wait_s(line.cost_s, per_s, servers)
            return Refusal(each.request, "queue full", all_s, max(LEAST_RETRY_S, first_s))
        deadline_s = each.gives_up_at - each.since
        if deadline_s == float("inf") or self._throughput.evidence < 1.0:
            return None
        allowed_s = longest_wait_s(deadline_s, each.least_s)
        wait_s = self._wait_s(line.ahead_s(each, rank), self._per_s(each, servers), servers)
        if wait_s <= allowed_s:
            return None
        return Refusal(each.request, "too late", wait_s, max(LEAST_RETRY_S, wait_s - allowed_s))

    @property
    def may_spill(self) -> bool:
        """Whether anybody waits here who may go elsewhere."""
        return bool(self._may_spill)

    def spill(self, each: Waiting, now: float, rank: Rank, *, servers: int) -> Refusal | None:
        """*each* waits no longer if it may go elsewhere and would get its first token later than it wants.

        *servers* as for `refusal`. As long as it was not seen how much work is done, only who has waited for too long
        already is late. O(requests that wait).
        """
        if id(each.request) not in self._may_spill:
            return None
        line = self._classes[each.level].lines[each.team]
        refusal = self._spilled(each, self._wait_s(line.ahead_s(each, rank), self._per_s(each, servers), servers), now)
        if refusal is not None:
            self.remove(each.request)
        return refusal

    def spill_all(self, now: float, rank: Rank, *, servers: int) -> list[Refusal]:
        """The same of everybody. O(n log n) in the requests that wait."""
        refusals: list[Refusal] = []
        for level, team in dict.fromkeys((each.level, each.team) for each in self._may_spill.values()):
            refusals += self._spill_line(self._classes[level].lines[team], now, rank, servers)
        for refusal in refusals:
            self.remove(refusal.request)
        return refusals

    def _spill_line(self, line: _Line, now: float, rank: Rank, servers: int) -> Iterator[Refusal]:
        per_s, most_s = self._per_s(line.oldest, servers), self._everything_s(servers)
        ahead_s = 0.0
        for each in sorted(line.waiting.values(), key=rank):
            refusal = self._spilled(each, min(ahead_s / per_s, most_s), now)
            if refusal is None:
                ahead_s += each.cost_s
            else:
                yield refusal

    def _spilled(self, each: Waiting, left_s: float, now: float) -> Refusal | None:
        """*left_s* is how long it has to wait from now on, as far as that can be told."""
        if each.spill_in_s is None:
            return None
        wait_s = now - each.since + (left_s if self._throughput.evidence >= 1.0 else 0.0)
        allowed_s = longest_wait_s(each.spill_in_s, each.least_s)
        if wait_s <= allowed_s:
            return None
        return Refusal(each.request, "spill", wait_s, max(LEAST_RETRY_S, wait_s - allowed_s))

    def _per_s(self, each: Waiting, servers: int) -> float:
        """Seconds of work per second that its team gets done while it waits beside those that wait now."""
        lines = self._classes[each.level].lines
        others = sum(line.oldest.weight for team, line in lines.items() if team != each.team)
        share = each.weight / (each.weight + others)
        return self._throughput.per_s(float(max(1, servers))) * share * self._shares(and_level=each.level)[each.level]

    def _wait_s(self, ahead_s: float, per_s: float, servers: int) -> float:
        """Until *ahead_s* of a team's work is sent; others with less waiting leave it their shares in the end."""
        return min(ahead_s / per_s, self._everything_s(servers))

    def _everything_s(self, servers: int) -> float:
        """Until all that waits is sent."""
        work_s = sum(each.cost_s for each in self._waiting.values())
        return work_s / self._throughput.per_s(float(max(1, servers)))

    def _shares(self, and_level: int | None = None) -> Mapping[int, float]:
        """Of every class in which somebody waits, highest first, and of *and_level*: the share of what is served."""
        shares: dict[int, float] = {}
        left = 1.0
        for level in range(HIGH, -1, -1):
            if self._classes[level].lines or level == and_level:
                shares[level] = left * (1.0 - self._rules.low_share)
                left *= self._rules.low_share
        if shares:
            shares[next(reversed(shares))] += left
        return shares

    def _promote(self, now: float) -> None:
        for level in range(HIGH):
            for each in self._classes[level].starved(self._rules.starvation_s, now):
                self._classes[level].remove(each)
                each.level += 1
                self._classes[each.level].add(each, now)
