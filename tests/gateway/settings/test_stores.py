"""Facts about what is kept, and what gateways share."""

import pytest

from tests.gateway.settings.examples import SMALLEST, sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "store: {url: 'mysql://root:pw@db'}",
            "store.url is not valid; the value must begin with sqlite:///, redis://, rediss:// or unix://.",
        ),
        (
            "replicas: {heartbeat_s: 2}",
            "replicas.dead_after_s is shorter than two times replicas.heartbeat_s, so one late heartbeat would "
            "make a gateway count as dead.",
        ),
    ],
)
def test_what_is_wrong_is_reported_by_its_place(text: str, expected: str) -> None:
    assert [expected] == sentences(f"{SMALLEST}\n{text}")
