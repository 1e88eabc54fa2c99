"""The rules for holding requests: how long, and in which order they leave."""

from dataclasses import dataclass

from routing.queueing.waiting import Waiting


@dataclass(frozen=True, slots=True)
class ReleasePolicy:
    """Limits on holding requests. The defaults did best in replays of real traces; none of them is critical."""

    depth_s: float = 0.05
    """Backlog at which a worker is about to be free: what is sent to it then begins as soon as it is."""
    max_wait_s: float = 120.0
    """Wait after which the first request of a session goes before all others; so does a request that would miss the
    time at which its caller wants the first token.

    Later requests of a session do not. Those that wait so long are cold. Where there are many, they would cost the warm
    ones their caches, until all requests are cold and served in the order of their arrival. Their rank still improves.
    """
    head_start_s: float = 30.0
    """Time added to each wait, so that short waits count little beside the cost of a prompt."""
    price: float = 3.0
    """Highest price, in seconds of waiting, of a second of prefill: prefill delays the requests that come after.

    As in `PrefixAware`, the price is 2 where the fleet is idle half of the time, and 1 where it is idle. So below
    saturation no request waits long for a hot prefix, and the prefix spreads.
    """
    max_waiting: int = 4096
    """Queue length beyond which requests are sent at once."""
    fresh_s: float = 0.5
    """Age after which a prompt is looked up in the caches again. It always is before its release."""
    max_lookups: int = 32
    """Repeated lookups in one pass over the queue; further requests keep their results."""

    def rank(self, each: Waiting, now: float) -> tuple[bool, float]:
        """Return the rank of *each* at *now*: the lowest goes first."""
        waited_s = now - each.since
        is_overdue = each.begins_session and waited_s >= self.max_wait_s
        if is_overdue or waited_s + each.min_s >= each.due_in_s:
            return False, each.since
        return True, each.min_s / (waited_s + self.head_start_s)
