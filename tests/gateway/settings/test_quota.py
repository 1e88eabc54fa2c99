"""Facts about how limits are counted and turns are given."""

import pytest

from tests.gateway.settings.examples import SMALLEST, sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "quota: {time_zone: Mars/Olympus}",
            "quota.time_zone is 'Mars/Olympus'; "
            "the value must be a time zone that this machine knows, such as Europe/Berlin.",
        ),
        ("quota: {burst: 0}", "quota.burst is 0; the value must be greater than 0."),
        ("queue: {low_share: 1.5}", "queue.low_share is 1.5; the value must be at most 1."),
    ],
)
def test_what_is_wrong_is_reported_by_its_place(text: str, expected: str) -> None:
    assert [expected] == sentences(f"{SMALLEST}\n{text}")
