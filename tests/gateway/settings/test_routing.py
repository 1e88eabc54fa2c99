"""The choice of a worker, and what it goes by."""

import pytest

from tests.gateway.settings.examples import SMALLEST, sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kv_events: {disk_price: 2}", "kv_events.disk_price is 2; it must be at most 1."),
        ("index: {block_bytes: 0}", "index.block_bytes is 0; it must be at least 1."),
        ("routing: {depth_s: 0}", "routing.depth_s is 0; it must be greater than 0."),
    ],
)
def test_what_is_wrong_is_told_by_its_place(text: str, expected: str) -> None:
    assert [expected] == sentences(f"{SMALLEST}\n{text}")
