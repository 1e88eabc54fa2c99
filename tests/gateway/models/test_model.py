"""A model: what it makes of a request, and what it reports its workers."""

import pytest

from cache_index import WorkerId
from gateway.backends.engine_metrics import EngineReading, Observation
from gateway.models.model import Model
from gateway.models.objectives import ModelObjectives
from gateway.protocol.body import parse_chat
from gateway.protocol.endpoints.responses import parse_responses
from gateway.protocol.errors import InvalidField
from gateway.tenancy.teams.caller import Caller
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.team import Team
from routing.booking import Ending, Outcome
from routing.request import HIGH, LOW, NORMAL, Request
from tests.fakes.backends import Answers
from tests.gateway.examples import CHAT, CHAT_STREAM, a_model
from tests.routing.examples import a_request, book

LONG = CHAT.replace(b"hello", b"x" * 1000)


def request_for(raw: bytes, model: Model | None = None, session: str | None = None) -> Request:
    return (model or a_model()).request(parse_chat(raw), {b"x-session-id": session}.get, None)


# ---- requests


def test_a_request_has_its_callers_share_of_the_fleet() -> None:
    """Where a key says nothing, what its team says counts; without teams all are equal."""
    team = Team("blue", weight=2.0, priority="low")
    headers: dict[bytes, str] = {}
    plain, heavy = Key("ci", "blue", ""), Key("ci", "blue", "", weight=3.0, priority="high")
    of_team = a_model().request(parse_chat(CHAT), headers.get, None, caller=Caller(team, plain))
    of_key = a_model().request(parse_chat(CHAT), headers.get, None, caller=Caller(team, heavy))
    of_no_one = request_for(CHAT)

    assert ("blue", 2.0, LOW) == (of_team.team, of_team.weight, of_team.priority)
    assert ("blue", 3.0, HIGH) == (of_key.team, of_key.weight, of_key.priority)
    assert ("", 1.0, NORMAL) == (of_no_one.team, of_no_one.weight, of_no_one.priority)


def test_an_objective_changes_the_priority() -> None:
    """With a key, only to a lower one."""
    objectives = ModelObjectives()
    objectives.priorities = {"urgent": 1, "idle": -1}
    model, caller = a_model(objectives=objectives), Caller(Team("blue"), Key("ci", "blue", ""))

    def priorities(name: str) -> tuple[int, int]:
        header = {b"x-llm-d-inference-objective": name}.get
        body = parse_chat(CHAT)
        return model.request(body, header, None).priority, model.request(body, header, None, caller=caller).priority

    assert [(HIGH, NORMAL), (LOW, LOW), (NORMAL, NORMAL)] == [priorities(name) for name in ("urgent", "idle", "none")]


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
    """No one expects more tokens than are allowed."""
    assert 16.0 == request_for(CHAT[:-1] + b',"max_tokens":16}').output_tokens


def test_prompt_logprobs_read_no_cache() -> None:
    """The engine computes the whole prompt anyway."""
    assert not request_for(CHAT[:-1] + b',"prompt_logprobs":1}').reads_cache


def test_a_request_that_goes_on_from_a_response_is_the_rest_of_its_prompt() -> None:
    """The index learns nothing from it; the caller of `request` knows its worker."""
    body = parse_responses(b'{"model":"tiny","input":"go on","previous_response_id":"resp_1"}')
    request = a_model().request(body, dict[bytes, str]().get, WorkerId("b"))

    assert (WorkerId("b"), False, False) == (request.pinned, request.reads_cache, request.writes_cache)
    assert request_for(CHAT).pinned is None
    assert request_for(CHAT).writes_cache


def test_a_header_wins_over_the_session_of_the_body() -> None:
    """It is what an operator can set without touching the client."""
    model, raw = a_model(strategy_name="session"), CHAT[:-1] + b',"user":"ann"}'

    assert ["ann", "bob"] == [request_for(raw, model, session).session for session in (None, "bob")]


@pytest.mark.parametrize("field", [b"user", b"prompt_cache_key"])
def test_what_many_conversations_share_names_a_session_only_for_the_strategy_session(field: bytes) -> None:
    """Other strategies recognize each conversation by its prompts. `session_id` names one conversation."""
    raw = CHAT[:-1] + b',"' + field + b'":"ann"}'
    by_header = a_model(allows_strategy_header=True)
    asked = by_header.request(parse_chat(raw), {b"x-warmgate-strategy": "session"}.get, None)

    assert [None, "ann"] == [request_for(raw, a_model(strategy_name=name)).session for name in ("kv_aware", "session")]
    assert "ann" == asked.session
    assert "s" == request_for(raw[:-1] + b',"session_id":"s"}').session


def test_sessions_of_teams_are_kept_apart() -> None:
    """Two teams may use the same name. An explanation has no caller, and names the team itself."""
    model, header = a_model(), {b"session-id": "s-1"}.get
    blue, green = (
        model.request(parse_chat(CHAT), header, None, caller=Caller(Team(name), Key("ci", name, "0" * 64)))
        for name in ("blue", "green")
    )

    assert ("blue\0s-1", "green\0s-1") == (blue.session, green.session)
    assert "blue\0s-1" == model.request(parse_chat(CHAT), header, None, team="blue").session
    assert "s-1" == model.request(parse_chat(CHAT), header, None).session


def test_a_header_may_name_the_strategy_where_the_model_allows_it() -> None:
    """Else it counts for nothing: anyone who put it there is notified in the answer which strategy was used."""
    allowed, other = a_model(allows_strategy_header=True), a_model()
    asks, silent = {b"x-warmgate-strategy": "round_robin"}.get, dict[bytes, str]().get
    body = parse_chat(CHAT)

    assert "round_robin" == allowed.request(body, asks, None).strategy
    assert [None, None, None] == [
        model.request(body, header, None).strategy
        for model, header in ((allowed, silent), (other, asks), (other, silent))
    ]


@pytest.mark.parametrize("name", ["best", "Round_Robin", "", " "])
def test_an_unknown_strategy_in_a_header_is_the_callers_fault(name: str) -> None:
    """The message names the header and the strategies there are; where the header counts for nothing it is not one."""
    header = {b"x-warmgate-strategy": name}.get
    with pytest.raises(InvalidField) as caught:
        a_model(allows_strategy_header=True).request(parse_chat(CHAT), header, None)

    assert (400, "x-warmgate-strategy") == (caught.value.status, caught.value.param)
    assert "must be one of round_robin, least_loaded, session, prefix_aware" in caught.value.message
    assert a_model().request(parse_chat(CHAT), header, None).strategy is None


def test_prompts_meet_in_their_scope_only() -> None:
    """Another upstream model or another salt is another cache; another name for the same one is not."""
    salted = LONG[:-1] + b',"cache_salt":"ann"}'
    same = [request_for(LONG), request_for(LONG, a_model(name="alias", upstream_name="tiny"))]
    other = [request_for(salted), request_for(LONG, a_model(name="big"))]

    assert 1 == len({request.prefix.hashes for request in same})
    assert 3 == len({request.prefix.hashes for request in (*same, *other)})


def test_a_salt_cannot_pose_as_part_of_a_model_name() -> None:
    """Between the two stands a character that no configured name has."""
    joined = LONG[:-1] + b',"cache_salt":"x"}'

    assert request_for(joined, a_model(name="tiny")).prefix != request_for(LONG, a_model(name="tinyx")).prefix


# ---- what changes while requests run


def test_requests_in_flight_are_those_of_former_settings_too() -> None:
    """One that began before the change is still being served, and ends where it began."""
    former = a_model(Answers())
    former.in_flight += 1
    model = a_model(Answers(), former=former)
    model.in_flight += 1

    assert (2, 2) == (former.in_flight, model.in_flight)

    former.in_flight -= 1

    assert 1 == model.in_flight


def test_what_engines_reported_goes_on_for_those_that_stay() -> None:
    """Observations of workers that left are forgotten."""
    former = a_model(Answers(), Answers())
    for worker in ("a", "b"):
        former.observed(WorkerId(worker), Observation(EngineReading(running=3.0), read_at=0.0, kept_s=20.0))
    model = a_model(Answers(), former=former)
    back = a_model(Answers(), Answers(), former=model)

    assert [True, False] == ["engine_running" in reading.values for reading in back.readings(1.0)]


async def test_backends_of_former_settings_are_not_forgotten_while_they_have_connections() -> None:
    """They are abandoned when their worker goes down, and closed at the end; those without are left out."""
    busy, idle, other, present, again = Answers(), Answers(), Answers(), Answers(), Answers()
    busy.connections_open = other.connections_open = 1
    model = a_model(present, Answers(), former=a_model(busy, other, former=a_model(idle)))
    model.went_down(WorkerId("a"))

    assert [True, False, False, True] == [each.was_abandoned for each in (busy, idle, other, present)]

    other.connections_open = 0
    await a_model(again, former=model).aclose()

    assert [True, False, False, True] == [each.is_closed for each in (busy, idle, other, again)]


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
    assert "there are no workers yet" == a_model().why_not_ready()


def test_who_computes_prompts_for_others_answers_no_one() -> None:
    model = a_model(Answers(), Answers())
    model.fleet.members.set_roles({WorkerId("a"): "prefill", WorkerId("b"): "decode"})
    assert model.why_not_ready() is None

    model.fleet.set_up(WorkerId("b"), up=False)
    assert "none of 1 workers is up" == model.why_not_ready()
    assert 0 == model.hand_over(WorkerId("b"))
    model.fleet.members.set_roles({WorkerId("a"): "prefill", WorkerId("b"): "prefill"})
    assert "there are no workers yet" == model.why_not_ready()


def test_what_a_policy_comes_to_is_decided_among_those_who_compute() -> None:
    """Workers that decode are chosen by load, whatever their engines tell."""
    model = a_model(Answers(), Answers(), strategy_name="kv_aware")
    model.fleet.members.set_roles({WorkerId("a"): "prefill", WorkerId("b"): "decode"})
    model.fleet.set_trusted(WorkerId("a"), trusted=True)

    assert "kv_aware" == model.effective_policy


def test_a_model_whose_workers_sleep_is_not_ready() -> None:
    """The operator reads that they sleep, which is another thing than being down."""
    model = a_model(Answers(), Answers())
    model.fleet.set_asleep(WorkerId("a"), asleep=True)
    assert model.why_not_ready() is None

    model.fleet.set_up(WorkerId("b"), up=False)
    assert "none of 2 workers is ready: 1 asleep, 1 down" == model.why_not_ready()
    model.fleet.set_up(WorkerId("b"), up=True)
    model.fleet.set_asleep(WorkerId("b"), asleep=True)
    assert "all of 2 workers are asleep" == model.why_not_ready()


def test_kv_aware_is_what_its_workers_engines_tell() -> None:
    """Without any that reports it ranks by what was sent; other strategies are what they are."""
    model = a_model(Answers(), Answers(), strategy_name="kv_aware")
    policies = [model.effective_policy]
    for worker in ("a", "b"):
        model.fleet.set_trusted(WorkerId(worker), trusted=True)
        policies.append(model.effective_policy)
    (a, _) = model.readings(0.0)

    assert ["prefix_aware", "kv_aware_in_part", "kv_aware"] == policies
    assert 1.0 == a.values["kv_events_live"]
    assert "session" == a_model(Answers(), strategy_name="session").effective_policy


def test_a_model_whose_workers_drain_is_not_ready() -> None:
    """The reason says so, and distinguishes them from those that are down."""
    model = a_model(Answers(), Answers())
    model.set_draining(WorkerId("a"), draining=True)
    assert model.why_not_ready() is None

    model.fleet.set_up(WorkerId("b"), up=False)
    assert "none of 2 workers is ready: 1 down, 1 draining" == model.why_not_ready()

    model.set_draining(WorkerId("b"), draining=True)
    model.fleet.set_up(WorkerId("b"), up=True)
    assert "all of 2 workers are draining" == model.why_not_ready()
    assert [1.0, 1.0] == [reading.values["draining"] for reading in model.readings(0.0)]

    model.set_draining(WorkerId("a"), draining=False)
    assert model.why_not_ready() is None


def test_what_waits_in_an_engine_by_another_way_is_backlog() -> None:
    """Five requests that the gateway did not send, each as long as those that it sends."""
    model = a_model(Answers())
    booking = book(model.fleet, a_request(prompt_tokens=1000.0), 0.0)
    model.fleet.bookings.release(booking, Outcome(Ending.ABORTED), 0.0)
    model.observed(WorkerId("a"), Observation(EngineReading(waiting=5.0), read_at=0.0, kept_s=20.0))
    (a,) = model.readings(0.0)

    assert pytest.approx(5 * booking.work_s) == a.values["backlog_seconds"]


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
