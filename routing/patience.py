"""How long requests are held back for a worker that suits them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    """How long what is waited for. The defaults did best when real traces were replayed; none of them is critical."""

    depth_s: float = 0.05
    """A worker with no more backlog is about to be free: what is sent now begins when it is."""
    max_wait_s: float = 120.0
    """A session's first request that has waited so long comes before all others; so does whatever would be late for
    when it is wanted.

    Not so the requests that follow: those that wait so long are cold, and where many are they would cost the warm ones
    their caches, until the queue is one of cold requests in the order in which they came. Their wait moves them up.
    """
    head_start_s: float = 30.0
    """How much waiting counts little beside what a prompt costs."""
    price: float = 3.0
    """Most seconds of waiting that a second of prefill is worth when a home is sought: it delays those who come after.

    Where the fleet idles half of the time it is 2, where it idles 1: as for `PrefixAware`. So below saturation nobody
    waits long for a hot prefix; it spreads.
    """
    most_waiting: int = 4096
    """With as many waiting, more are released at once."""
    fresh_s: float = 0.5
    """A prompt is looked up again in the caches when what was found is older, and always before its release."""
    most_lookups: int = 32
    """Of them at one look at the queue; the others keep what was found."""
