import pytest

from cache_index import WorkerId
from gateway.endpoints.responses import parse_responses
from gateway.errors import InvalidField, UnknownResponse
from gateway.keeper import keeper_of
from gateway.response_owners import Owner
from tests.fakes.backends import Answers
from tests.gateway.examples import a_model

OWNERS = {
    "resp_b": Owner("tiny", WorkerId("b")),
    "resp_gone": Owner("tiny", WorkerId("gone")),
    "resp_big": Owner("big", WorkerId("a")),
}


@pytest.mark.parametrize(
    ("keeper", "body"),
    [
        ("b", b'{"model":"tiny","input":"x","previous_response_id":"resp_b"}'),
        # A beginning, another gateway's response, and another model's: any worker is as good.
        (None, b'{"model":"tiny","input":"x"}'),
        (None, b'{"model":"tiny","input":"x","previous_response_id":"resp_unknown"}'),
        (None, b'{"model":"tiny","input":"x","previous_response_id":"resp_big"}'),
    ],
)
def test_a_response_is_gone_on_with_where_it_is_kept(keeper: str | None, body: bytes) -> None:
    """A table of bodies and the worker that must answer."""
    assert keeper == keeper_of(parse_responses(body), a_model(Answers(), Answers()), OWNERS.get)


def test_a_response_whose_worker_left_is_lost() -> None:
    """No other has the conversation, so the caller is told, and not at any length."""
    body = parse_responses(b'{"model":"tiny","input":"x","previous_response_id":"resp_gone"}')
    with pytest.raises(UnknownResponse, match="The worker that kept the response 'resp_gone' is gone") as caught:
        keeper_of(body, a_model(Answers()), OWNERS.get)

    assert "previous_response_id" == caught.value.param


def test_a_response_that_nobody_knows_is_no_teams() -> None:
    """Where there are teams, a worker is not asked to go on with what may be another's."""
    body = parse_responses(b'{"model":"tiny","input":"x","previous_response_id":"resp_unknown"}')
    with pytest.raises(UnknownResponse, match="is not kept by any worker"):
        keeper_of(body, a_model(Answers()), OWNERS.get, "blue")


def test_what_cannot_be_an_id_is_refused() -> None:
    body = parse_responses(b'{"model":"tiny","input":"x","previous_response_id":"../x"}')
    with pytest.raises(InvalidField, match="'previous_response_id' must be an id"):
        keeper_of(body, a_model(Answers()), OWNERS.get)


@pytest.mark.parametrize(("team", "is_known"), [("blue", True), ("red", False), (None, False)])
def test_a_response_is_gone_on_with_by_its_own_team_only(team: str | None, is_known: bool) -> None:
    """To others it is as if it did not exist."""
    body = parse_responses(b'{"model":"tiny","input":"x","previous_response_id":"resp_a"}')
    owners = {"resp_a": Owner("tiny", WorkerId("a"), "blue")}

    if is_known:
        assert "a" == keeper_of(body, a_model(Answers()), owners.get, team)
    else:
        with pytest.raises(UnknownResponse, match="is not kept by any worker"):
            keeper_of(body, a_model(Answers()), owners.get, team)
