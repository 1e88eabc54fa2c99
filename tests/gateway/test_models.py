"""The registry, and what one model makes of a request."""

import pytest

from cache_index import WorkerId
from gateway.body import parse_chat
from gateway.errors import UnknownModel
from gateway.models import Model
from routing.request import Request
from tests.fakes.backends import Answers
from tests.gateway.examples import CHAT, CHAT_STREAM, a_model, the_models
from tests.routing.examples import a_request, book

LONG = CHAT.replace(b"hello", b"x" * 1000)


def request_for(raw: bytes, model: Model | None = None, session: str | None = None) -> Request:
    return (model or a_model()).request(parse_chat(raw), session)


# ---- the registry


def test_a_model_is_found_by_name_alias_and_pattern() -> None:
    """Whichever name it was, the configured model comes."""
    tiny, big = a_model(name="tiny"), a_model(name="big")
    models = the_models(tiny, big, aliases={"tiny": ["gpt-4o-mini"], "big": ["gpt-4*"]})

    assert [tiny, big, tiny, big] == [models.find(n) for n in ("tiny", "big", "gpt-4o-mini", "gpt-4.1")]


def test_an_unknown_model_is_the_callers_fault() -> None:
    """The message quotes what was asked for, but not at any length."""
    with pytest.raises(UnknownModel) as caught:
        the_models(a_model()).find("x" * 200)

    assert f"The model {'x' * 100!r} does not exist or is not served here" == str(caught.value)
    assert (404, "model") == (caught.value.status, caught.value.param)


def test_ids_are_names_and_exact_aliases() -> None:
    """A pattern is no name that a client could ask for."""
    models = the_models(a_model(name="tiny"), a_model(name="big"), aliases={"tiny": ["gpt-4o", "gpt-4*"]})

    assert ["tiny", "gpt-4o", "big"] == models.ids()
    assert ["tiny", "big"] == [model.name for model in models]


# ---- requests


def test_a_request_holds_what_routing_needs() -> None:
    """Lengths in bytes and, by the model's ratio of four bytes a token, in tokens."""
    request = request_for(LONG)

    assert 15 == request.prefix.blocks
    assert request.prompt_bytes / 4 == request.prompt_tokens
    assert (256.0, None, False, True) == (
        request.output_tokens,
        request.session,
        request.streams,
        request.reads_cache,
    )
    assert request_for(CHAT_STREAM).streams


def test_the_callers_limit_bounds_the_expected_output() -> None:
    """Nobody expects more tokens than are allowed."""
    assert 16.0 == request_for(CHAT[:-1] + b',"max_tokens":16}').output_tokens


def test_prompt_logprobs_read_no_cache() -> None:
    """The engine computes the whole prompt anyway."""
    assert not request_for(CHAT[:-1] + b',"prompt_logprobs":1}').reads_cache


def test_a_header_wins_over_the_session_of_the_body() -> None:
    """It is what an operator can set without touching the client."""
    raw = CHAT[:-1] + b',"user":"ann"}'

    assert ["ann", "bob"] == [request_for(raw).session, request_for(raw, session="bob").session]


def test_prompts_meet_in_their_scope_only() -> None:
    """Another upstream model or another salt is another cache; another name for the same one is not."""
    salted = LONG[:-1] + b',"cache_salt":"ann"}'
    same = [request_for(LONG), request_for(LONG, a_model(name="alias", upstream_name="tiny"))]
    other = [request_for(salted), request_for(LONG, a_model(name="big"))]

    assert 1 == len({request.prefix for request in same})
    assert 3 == len({request.prefix for request in (*same, *other)})


def test_a_salt_cannot_pose_as_part_of_a_model_name() -> None:
    """Between the two stands a character that no configured name has."""
    joined = LONG[:-1] + b',"cache_salt":"x"}'

    assert request_for(joined, a_model(name="tiny")).prefix != request_for(LONG, a_model(name="tinyx")).prefix


# ---- readiness and gauges


def test_a_model_is_ready_if_somebody_could_answer() -> None:
    """One worker that is up is enough, and so is a fallback."""
    model = a_model(Answers(), Answers())
    for worker in ("a", "b"):
        model.fleet.set_up(WorkerId(worker), up=False)

    assert "none of 2 workers is up" == model.why_not_ready()
    model.fleet.set_up(WorkerId("b"), up=True)
    assert model.why_not_ready() is None
    assert a_model(fallback=Answers()).why_not_ready() is None
    assert "none of 0 workers is up" == a_model().why_not_ready()


def test_readings_are_the_state_of_each_worker() -> None:
    """Whatever was told to the fleet shows; nothing is counted a second time."""
    first, second = Answers(), Answers()
    model = a_model(first, second)
    second.connections_open = 3
    model.fleet.set_up(WorkerId("b"), up=False)
    book(model.fleet, a_request("abcd"), 0.0)
    a, b = model.readings(0.0)

    assert {
        "up": 1.0,
        "breaker_open": 0.0,
        "in_flight": 1.0,
        "backlog_seconds": pytest.approx(0.084, abs=0.01),
        "prefill_tokens_per_second": pytest.approx(870, abs=1),
        "index_blocks": 4.0,
        "connections": 0.0,
    } == a.values
    assert ("a", "b") == (a.worker, b.worker)
    assert (0.0, 0.0, 0.0, 3.0) == tuple(b.values[n] for n in ("up", "in_flight", "index_blocks", "connections"))


@pytest.mark.parametrize(
    ("others_up", "fallback", "abandoned"), [(True, None, True), (False, None, False), (False, Answers(), True)]
)
def test_what_a_worker_that_went_down_has_not_answered_goes_elsewhere(
    others_up: bool, fallback: Answers | None, abandoned: bool
) -> None:
    """To another worker or the fallback; if there is neither, it may as well wait."""
    worker = Answers()
    model = a_model(worker, Answers(), fallback=fallback)
    model.fleet.set_up(WorkerId("a"), up=False)
    model.fleet.set_up(WorkerId("b"), up=others_up)
    model.went_down(WorkerId("a"))

    assert abandoned is worker.was_abandoned


async def test_closing_a_model_closes_its_workers() -> None:
    """All of them."""
    workers = Answers(), Answers()
    await a_model(*workers).aclose()

    assert all(worker.is_closed for worker in workers)
