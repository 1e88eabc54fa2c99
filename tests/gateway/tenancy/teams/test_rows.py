import logging

import pytest

from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.rows import Rows, row_of
from gateway.tenancy.teams.team import Team

FULL = Key(
    "ci",
    "blue",
    "d",
    former_digest="e",
    former_until=5.5,
    created_at=1.0,
    expires_at=9.0,
    blocked=True,
    project="p",
    models=(),
    strategies=("session",),
    fallback=False,
    networks=("10.0.0.0/8",),
    priority="high",
    weight=2.0,
    limits=Limits(requests_per_minute=5, usd_per_day=0.5),
    model_limits={"tiny": Limits(concurrent=1)},
)


def test_written_rows_can_be_read() -> None:
    team = Team("blue", models=("tiny", "gpt-*"), priority="low", limits=Limits(usd_per_month=100.0))

    assert {"ci": FULL} == Rows(Key).read([("ci", row_of(FULL))])
    assert {"blue": team} == Rows(Team).read([("blue", row_of(team))])


def test_a_row_holds_what_differs_from_the_defaults() -> None:
    assert b'{"name":"blue"}' == row_of(Team("blue"))


def test_a_row_that_stays_as_it_is_stays_the_same_object() -> None:
    rows = Rows(Team)
    first = rows.read([("blue", row_of(Team("blue"))), ("red", row_of(Team("red")))])
    second = rows.read([("blue", row_of(Team("blue"))), ("red", row_of(Team("red", weight=2.0)))])

    assert first["blue"] is second["blue"]
    assert 2.0 == second["red"].weight


def test_a_row_that_is_gone_is_gone() -> None:
    rows = Rows(Team)
    rows.read([("blue", row_of(Team("blue")))])

    assert {} == rows.read([])


def test_a_field_of_another_version_is_passed_over() -> None:
    """While replicas are replaced one by one, both read what both write."""
    assert {"blue": Team("blue")} == Rows(Team).read([("blue", b'{"name":"blue","motto":"navy"}')])


@pytest.mark.parametrize(
    "row", [b"", b"{", b"[]", b'{"id":"ci"}', b'{"id":1,"team":"blue","digest":"s3cret"}', b"\xff"]
)
def test_a_row_that_cannot_be_read_is_left_out_and_logged_once(row: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """It gives no access, the others do; its content is not logged."""
    rows = Rows(Key)
    with caplog.at_level(logging.ERROR):
        for _ in range(2):
            assert {"ci": FULL} == rows.read([("broken", row), ("ci", row_of(FULL))])

    assert ["the row of Key 'broken' in the store cannot be read and is skipped"] == caplog.messages
