import pytest

from gateway.protocol.errors import Forbidden
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.permits import Permits
from gateway.tenancy.teams.team import Team

Names = tuple[str, ...]


def permits(
    team: Names | None = None, key: Names | None = None, *, strategies: tuple[Names | None, Names | None] = (None, None)
) -> Permits:
    return Permits(
        Team("blue", models=team, strategies=strategies[0]),
        Key("ci", "blue", "d", models=key, strategies=strategies[1]),
    )


@pytest.mark.parametrize(
    ("team", "key", "asked", "model", "may"),
    [
        (None, None, "tiny", "tiny", True),
        (("tiny",), None, "tiny", "tiny", True),
        (("tiny",), None, "big", "big", False),
        ((), None, "tiny", "tiny", False),
        # Its own name allows every name of a model; an alias allows that alias.
        (("tiny",), None, "gpt-4", "tiny", True),
        (("gpt-4",), None, "gpt-4", "tiny", True),
        (("gpt-4",), None, "tiny", "tiny", False),
        # Patterns are prefixes.
        (("gpt-*",), None, "gpt-4o", "tiny", True),
        (("ti*",), None, "anything", "tiny", True),
        (("gpt-*",), None, "gpt", "big", False),
        (("*",), None, "big", "big", True),
        (("gpt-*", "tiny"), None, "tiny", "tiny", True),
        # Case counts, and a star is no star elsewhere.
        (("tiny",), None, "Tiny", "Tiny", False),
        # Team and key.
        (None, ("tiny",), "big", "big", False),
        (("tiny", "big"), ("tiny",), "big", "big", False),
        (("tiny",), ("tiny", "big"), "big", "big", False),
        (("tiny", "big"), ("tiny",), "tiny", "tiny", True),
        (("tiny",), ("gpt-4",), "gpt-4", "tiny", True),
    ],
)
def test_models_that_may_be_used(team: Names | None, key: Names | None, asked: str, model: str, may: bool) -> None:
    assert may == permits(team, key).may_use(asked, model)


def test_another_model_is_forbidden() -> None:
    """OpenAI's SDK raises PermissionDeniedError for it."""
    with pytest.raises(Forbidden) as refused:
        permits(("tiny",)).check_model("big", "big")

    assert (403, "model_not_allowed", "model") == (refused.value.status, refused.value.code, refused.value.param)
    assert "The API key 'ci' of the team 'blue' may not use the model 'big'" == refused.value.message


def test_a_model_that_may_be_used_passes_the_check() -> None:
    permits(("tiny",), ("gpt-*",)).check_model("gpt-4", "tiny")


def test_a_long_name_is_not_repeated_in_full() -> None:
    with pytest.raises(Forbidden) as refused:
        permits(("tiny",)).check_model("b" * 5000, "big")

    assert 300 > len(refused.value.message)


def test_strategies_are_allowed_by_team_and_key() -> None:
    both = permits(strategies=(("session", "round_robin"), ("session",)))
    both.check_strategy("session")
    permits().check_strategy("kv_aware")

    for strategy in ("round_robin", "kv_aware"):
        with pytest.raises(Forbidden) as refused:
            both.check_strategy(strategy)
        assert "strategy_not_allowed" == refused.value.code
