"""The words with which engines say where a block lies."""

import pytest

from cache_index.event import Tier
from gateway.workers.kv_events.media import tier_of


@pytest.mark.parametrize(
    ("medium", "tier"),
    [
        (None, Tier.GPU),
        ("GPU", Tier.GPU),
        ("DEVICE", Tier.GPU),
        ("CPU", Tier.CPU),
        ("cpu", Tier.CPU),
        ("CPU_PINNED", Tier.CPU),
        ("CPU_TIER1", Tier.CPU),
        ("CPU_TIER2", Tier.DISK),
        ("DISK", Tier.DISK),
        ("NVME", Tier.DISK),
        ("STORAGE", Tier.DISK),
        ("EXTERNAL", Tier.SHARED),
        ("NETWORK", Tier.SHARED),
        ("REMOTE", Tier.SHARED),
        ("SHARED", Tier.SHARED),
    ],
)
def test_every_word_has_its_tier(medium: str | None, tier: Tier) -> None:
    """vLLM's, SGLang's, Dynamo's and LMCache's, which writes small."""
    assert tier is tier_of(medium)


def test_what_is_remote_is_shared() -> None:
    """Wherever it lies there, it is not the worker's own."""
    assert Tier.SHARED is tier_of("CPU", "REMOTE")
    assert Tier.CPU is tier_of("CPU", "LOCAL")


@pytest.mark.parametrize(("medium", "locality"), [("TAPE", None), ("GPU", "ELSEWHERE"), ("", None)])
def test_no_place_is_guessed(medium: str, locality: str | None) -> None:
    """A word that is not known names no tier."""
    assert tier_of(medium, locality) is None
