"""Workers that are slow, fail or leave."""

import pytest

from tests.gateway.settings.examples import SMALLEST, sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("breaker: {error_share: 1.5}", "breaker.error_share is 1.5; the value must be at most 1."),
        ("health: {path: ready}", "health.path is 'ready'; the value must be a path that begins with '/'."),
        ("retry: {max_attempts: 0}", "retry.max_attempts is 0; the value must be at least 1."),
        ("drain: {hand_over_after_s: -1}", "drain.hand_over_after_s is -1; the value must be at least 0."),
    ],
)
def test_what_is_wrong_is_reported_by_its_place(text: str, expected: str) -> None:
    assert [expected] == sentences(f"{SMALLEST}\n{text}")
