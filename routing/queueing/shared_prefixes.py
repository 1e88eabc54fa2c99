"""Requests that share a long prefix wait while a worker computes it, so that workers do not compute it several times.

Sub-agents of one parent arrive together. Their prompts begin with the same long prefix, which no worker has cached yet.
For each request alone, an idle worker that computes the prefix again is as fast as the worker that computes it already.
But every copy takes time of a worker from other requests, and space in its cache from other sessions. A request is
therefore not sent to a worker that would compute a prefix which another worker is computing.

A large group is spread. A copy is worth its cost once the requests that wait for the first worker need more time than
the copy. The copy counts as many times as `FleetView.price` says. The next request then goes to another worker.

A request waits only for a prefix that takes longer than the rest of its own prompt. Otherwise, sessions that share
a long system prompt would begin on one worker.

A request waits at most for a multiple of the time that it saves, counted from the first time that it waits.
"""

from collections.abc import Sequence
from typing import Final

from cache_index import WorkerId
from cache_index.prefix import common_blocks
from routing.booking import Booking
from routing.candidate import Candidate
from routing.explanation import Explanation
from routing.fleet import Fleet
from routing.queueing.fleet_view import FleetView
from routing.queueing.homes import Homes
from routing.queueing.release_policy import ReleasePolicy
from routing.queueing.waiting import Waiting
from routing.request import Request

MAX_WAIT: Final = 2.0
"""Maximum wait for a prefix, as a multiple of the prefill time that the request saves. A prefill that takes longer than
predicted delays the requests behind it no more than that."""


class SharedPrefixes:
    """Decision whether a waiting request waits for a prefix that a worker is computing.

    A request that would compute no more than elsewhere costs one comparison, and a request that already waits costs one
    lookup. Otherwise, the cost is linear in the number of workers with a longer hit and their unfinished prompts.
    """

    def __init__(self, fleet: Fleet, homes: Homes, policy: ReleasePolicy) -> None:
        self._fleet = fleet
        self._homes = homes
        self._min_saved_s = policy.min_shared_s

    def still_waits(self, each: Waiting, view: FleetView, now: float) -> bool:
        """Return whether the request *each* still waits for a prefix. If so, add its work to the backlog of the worker
        that computes the prefix in *view*. The wait ends shortly before the worker is free, as for all requests.
        """
        booking = each.awaits
        if booking is None:
            return False
        if now < each.awaits_until and self._fleet.bookings.is_computing(booking):
            place = self._homes.place(booking.worker)
            if view.backlog_s[place] > view.depth_s:
                view.backlog_s[place] += each.min_s
                return True
        each.awaits = None
        return False

    def begins_wait(self, each: Waiting, destination: Candidate, view: FleetView, now: float) -> bool:
        """Return whether the request *each* waits for a prefix instead of going to *destination*. If so, add its work
        to the backlog of the worker that computes the prefix in *view*.
        """
        copies_at = self._homes.place(destination.worker)
        saved_s = float(each.prefill_s[copies_at]) - each.min_s
        if saved_s < max(self._min_saved_s, each.min_s) or now >= each.awaits_until:
            return False
        found = []
        for other, booking in self.computing(each.request, each.order, destination):
            place = self._homes.place(other.worker)
            # The rest of the prefix takes as long as a copy, so only the work after it counts.
            found.append((float(view.backlog_s[place]) - min(booking.work_s, other.load.backlog_s), place, booking))
        if not found:
            return False
        queued_s, place, booking = min(found, key=lambda one: one[0])
        if queued_s > view.price[copies_at] * saved_s:
            return False
        each.awaits = booking
        each.awaits_until = min(each.awaits_until, now + MAX_WAIT * saved_s)
        view.backlog_s[place] += each.min_s
        return True

    def awaited(self, explanation: Explanation) -> WorkerId | None:
        """Return the worker that is computing a long prefix of the explained request, or None."""
        order = [place.candidate for place in explanation.places]
        computing = self.computing(explanation.request, order, order[0]) if order else []
        return computing[0][0].worker if computing else None

    def computing(
        self, request: Request, candidates: Sequence[Candidate], destination: Candidate
    ) -> list[tuple[Candidate, Booking]]:
        """Return the workers that are computing a long prefix of *request*, each with the booking that computes it.

        The list is empty if *destination* or any other worker has already computed as much of the prompt.
        """
        cached, found = destination.hit_tokens, []
        for candidate in candidates:
            if _saved_s(candidate, cached) < self._min_saved_s:
                continue
            shared_tokens, last = 0.0, None
            for booking in self._fleet.worker(candidate.worker).pending:
                tokens = _shared_tokens(booking, request)
                if tokens > shared_tokens:
                    shared_tokens, last = tokens, booking
            cached = max(cached, candidate.hit_tokens - shared_tokens)
            if last is not None:
                found.append((candidate, last))
        return [
            (candidate, booking) for candidate, booking in found if _saved_s(candidate, cached) >= self._min_saved_s
        ]


def _saved_s(candidate: Candidate, cached_tokens: float) -> float:
    """Return the seconds of prefill that the hit of *candidate* saves, compared with *cached_tokens* cached tokens."""
    return (candidate.hit_tokens - cached_tokens) * candidate.load.prefill_s_per_token


def _shared_tokens(booking: Booking, request: Request) -> float:
    """Return the number of tokens that *booking* computes and that are also in the prompt of *request*."""
    theirs = booking.request
    if not theirs.prefix.blocks:
        return 0.0
    share = common_blocks(theirs.prefix.hashes, 0, request.prefix.hashes, 0) / theirs.prefix.blocks
    return max(0.0, share * theirs.prompt_tokens - (theirs.prompt_tokens - booking.uncached_tokens))
