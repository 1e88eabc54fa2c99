"""Bodies take no more memory together than they may."""

import pytest

from gateway.protocol.errors import MemoryShort
from gateway.proxy.bodies.budget import BodyBudget, BodyShare


def test_a_share_counts_only_what_is_new() -> None:
    """What a body is known to have at last is what it takes, and all of it comes back."""
    budget = BodyBudget(100)
    share = BodyShare(budget)
    for size in (10, 60, 30):
        share.cover(size)

    assert (60, 60) == (share.taken_bytes, budget.used_bytes)
    share.close()
    share.close()
    assert budget.used_bytes == 0


def test_what_does_not_fit_is_refused_until_others_have_ended() -> None:
    budget = BodyBudget(100)
    first, second = BodyShare(budget), BodyShare(budget)
    first.cover(80)
    with pytest.raises(MemoryShort) as refusal:
        second.cover(21)

    assert (503, 1) == (refusal.value.status, refusal.value.retry_after_s)
    assert "server.max_bodies_bytes" in refusal.value.message
    first.close()
    second.cover(100)
