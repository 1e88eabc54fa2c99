"""Rules for how long requests are held and in which order they are released."""

from dataclasses import dataclass

from routing.queueing.waiting import Waiting


@dataclass(frozen=True, slots=True)
class ReleasePolicy:
    """Limits for holding requests. The defaults did best in replays of real traces, and no value is critical."""

    depth_s: float = 0.05
    """Backlog in seconds at which a worker counts as about to be free. A request sent then begins without a pause."""
    max_wait_s: float = 120.0
    """Wait in seconds after which the first request of a session goes before all others. A request that would otherwise
    miss its caller's time limit for the first token also goes first.

    Later requests of a session are never moved to the front. Requests that wait this long have lost their cached
    prefixes. On a crowded fleet, moving them up would evict the caches of other requests until every request is cold
    and served in order of arrival. The rank of later requests still improves while they wait.
    """
    head_start_s: float = 30.0
    """Seconds added to each request's wait, so that short waits matter little compared with the cost of a prompt."""
    price: float = 3.0
    """Maximum cost of a second of prefill, in equivalent seconds of waiting. Prefill has a cost because it delays later
    requests.

    As in `PrefixAware`, the price is 2 if the fleet is idle half of the time, and 1 if it is always idle. Below
    saturation, no request therefore waits long for a hot prefix, and the prefix spreads to other workers.
    """
    max_waiting: int = 4096
    """Queue length above which new requests are sent at once."""
    fresh_s: float = 0.5
    """Age in seconds after which a cache lookup is repeated. Each lookup is repeated before the release."""
    max_lookups: int = 32
    """Maximum number of cache lookups to repeat in one pass over the queue. Further requests keep their old results."""

    min_shared_s: float = 0.1
    """Prefill time in seconds that a request must save to wait for a prefix that a worker is computing.

    The default is twice the backlog at which a worker counts as free, so short common system prompts hold nothing back.
    """

    def rank(self, each: Waiting, now: float) -> tuple[bool, float]:
        """Return the rank of the waiting request *each*. The request with the lowest rank is sent first."""
        waited_s = now - each.since
        is_overdue = each.begins_session and waited_s >= self.max_wait_s
        if is_overdue or waited_s + each.min_s >= each.due_in_s:
            return False, each.since
        return True, each.min_s / (waited_s + self.head_start_s)
