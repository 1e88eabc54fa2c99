import pytest

from cache_index import WorkerId
from gateway.models.response_affinity.affinity import keeping_worker
from gateway.models.response_affinity.owners import ResponseOwner
from gateway.protocol.endpoints.responses import parse_responses
from gateway.protocol.errors import InvalidField, UnknownResponse
from tests.fakes.backends import Answers
from tests.gateway.examples import a_model

OWNERS = {
    "resp_b": ResponseOwner("tiny", WorkerId("b")),
    "resp_gone": ResponseOwner("tiny", WorkerId("gone")),
    "resp_big": ResponseOwner("big", WorkerId("a")),
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
    assert keeper == keeping_worker(parse_responses(body), a_model(Answers(), Answers()), OWNERS.get)


def test_a_response_whose_worker_left_is_lost() -> None:
    """No other has the conversation, so the caller is notified, and not at any length."""
    body = parse_responses(b'{"model":"tiny","input":"x","previous_response_id":"resp_gone"}')
    with pytest.raises(UnknownResponse, match="The worker that stored the response 'resp_gone' is gone") as caught:
        keeping_worker(body, a_model(Answers()), OWNERS.get)

    assert "previous_response_id" == caught.value.param


def test_a_response_that_no_one_knows_is_no_teams() -> None:
    """Where there are teams, a worker is not asked to go on with what may be another's."""
    body = parse_responses(b'{"model":"tiny","input":"x","previous_response_id":"resp_unknown"}')
    with pytest.raises(UnknownResponse, match="is not stored by any worker"):
        keeping_worker(body, a_model(Answers()), OWNERS.get, "blue")


def test_what_cannot_be_an_id_is_refused() -> None:
    body = parse_responses(b'{"model":"tiny","input":"x","previous_response_id":"../x"}')
    with pytest.raises(InvalidField, match="'previous_response_id' must be an id"):
        keeping_worker(body, a_model(Answers()), OWNERS.get)


@pytest.mark.parametrize(("team", "is_known"), [("blue", True), ("red", False), (None, False)])
def test_a_response_is_gone_on_with_by_its_own_team_only(team: str | None, is_known: bool) -> None:
    """To others it is as if it did not exist."""
    body = parse_responses(b'{"model":"tiny","input":"x","previous_response_id":"resp_a"}')
    owners = {"resp_a": ResponseOwner("tiny", WorkerId("a"), "blue")}

    if is_known:
        assert "a" == keeping_worker(body, a_model(Answers()), owners.get, team)
    else:
        with pytest.raises(UnknownResponse, match="is not stored by any worker"):
            keeping_worker(body, a_model(Answers()), owners.get, team)
