"""Teams and keys as answers show them."""

import json

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gateway.api.admin_v1.bodies import KeyState, TeamState
from gateway.api.admin_v1.response_models import (
    KeyResponse,
    TeamResponse,
    key_of,
    key_response,
    key_state,
    team_of,
    team_response,
    team_state,
)
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.team import Team

TEAM = Team(
    name="blue",
    weight=2.5,
    priority="high",
    models=("tiny", "gpt-4*"),
    strategies=("kv_aware",),
    fallback=False,
    ttft_s=0.5,
    blocked=True,
    isolated_cache=True,
    projects=("search",),
    guardrails=("pii",),
    limits=Limits(requests_per_minute=600, usd_per_month=99.5),
    limit_template="standard",
    model_limits={"tiny": Limits(concurrent=3)},
    user_limits=Limits(tokens_per_day=200),
    session_limits=Limits(concurrent=4),
    project_limits={"search": Limits(usd_per_month=40.0)},
)
KEY = Key(
    id="ci",
    team="blue",
    digest="d1" * 32,
    former_digest="d2" * 32,
    former_until=150.0,
    created_at=50.0,
    expires_at=200.25,
    blocked=True,
    project="search",
    models=("tiny",),
    strategies=(),
    fallback=True,
    networks=("10.0.0.0/8",),
    priority="low",
    weight=0.5,
    limits=Limits(tokens_per_day=5),
    limit_template="trial",
    model_limits={"big": Limits(usd_per_day=1.0)},
)
LIMITS = st.builds(Limits, requests_per_minute=st.none() | st.integers(1, 10**15), usd_per_day=st.none() | st.just(0.1))
TIMES = st.none() | st.integers(40_000_000 * 10**6, 200_000_000_000 * 10**6).map(lambda micros: micros / 10**6)


def test_a_team_as_it_is_shown() -> None:
    assert {
        "object": "team",
        "name": "blue",
        "weight": 2.5,
        "priority": "high",
        "models": ["tiny", "gpt-4*"],
        "strategies": ["kv_aware"],
        "fallback": False,
        "ttft_s": 0.5,
        "blocked": True,
        "isolated_cache": True,
        "projects": ["search"],
        "guardrails": ["pii"],
        "limits": {"requests_per_minute": 600, "usd_per_month": 99.5},
        "limit_template": "standard",
        "model_limits": {"tiny": {"concurrent": 3}},
        "user_limits": {"tokens_per_day": 200},
        "session_limits": {"concurrent": 4},
        "project_limits": {"search": {"usd_per_month": 40.0}},
        "declared": True,
    } == team_response(TEAM, declared=True)


def test_a_key_as_it_is_shown() -> None:
    assert {
        "object": "key",
        "id": "ci",
        "team": "blue",
        "project": "search",
        "models": ["tiny"],
        "strategies": [],
        "fallback": True,
        "networks": ["10.0.0.0/8"],
        "priority": "low",
        "weight": 0.5,
        "blocked": True,
        "expires_at": "1970-01-01T00:03:20.250000Z",
        "limits": {"tokens_per_day": 5},
        "limit_template": "trial",
        "model_limits": {"big": {"usd_per_day": 1.0}},
        "created_at": "1970-01-01T00:00:50Z",
        "expired": False,
        "former_until": "1970-01-01T00:02:30Z",
        "declared": False,
    } == key_response(KEY, declared=False, now=100.0)


def test_what_is_over_is_shown_so() -> None:
    """The key, and the grace of its former secret."""
    card = key_response(KEY, declared=False, now=200.25)

    assert (True, None) == (card["expired"], card["former_until"])


def test_no_digest_is_shown() -> None:
    shown = json.dumps([key_response(KEY, declared=False, now=0.0), key_state(KEY)])

    assert "d1d1" not in shown
    assert "d2d2" not in shown


def test_cards_have_the_fields_that_are_described() -> None:
    assert TeamResponse.model_fields.keys() == team_response(TEAM, declared=False).keys()
    assert KeyResponse.model_fields.keys() == key_response(KEY, declared=False, now=0.0).keys()


def test_every_field_comes_back() -> None:
    """What a merge patch does not name stays as it is."""
    team = TeamState.model_validate_json(json.dumps(team_state(TEAM)))
    key = KeyState.model_validate_json(json.dumps(key_state(msgspec.structs.replace(KEY, expires_at=99_000_000.25))))

    assert TEAM == team_of("blue", team)
    assert msgspec.structs.replace(KEY, expires_at=99_000_000.25) == key_of(KEY, key)


@given(limits=LIMITS, expires_at=TIMES, weight=st.none() | st.floats(0.001, 1000))
def test_an_empty_patch_changes_nothing(limits: Limits, expires_at: float | None, weight: float | None) -> None:
    """Not a float's last digit: the store would see a change."""
    key = Key(id="ci", team="blue", digest="d", limits=limits, expires_at=expires_at, weight=weight)

    assert key == key_of(key, KeyState.model_validate_json(json.dumps(key_state(key))))
