"""The choice of a worker, and what it goes by."""

import pytest

from tests.gateway.settings.examples import SMALLEST, sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("advanced: {disk_tier_price: 2}", "advanced.disk_tier_price is 2; the value must be at most 1."),
        ("index: {block_bytes: 0}", "index.block_bytes is 0; the value must be at least 1."),
        ("advanced: {release_depth_s: 0}", "advanced.release_depth_s is 0; the value must be greater than 0."),
    ],
)
def test_what_is_wrong_is_reported_by_its_place(text: str, expected: str) -> None:
    assert [expected] == sentences(f"{SMALLEST}\n{text}")
