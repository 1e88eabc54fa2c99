"""Settings that have another name or place now."""

from typing import Any

import pytest

from gateway.protocol.field_names import Place
from gateway.settings import Settings, SettingsError, build
from gateway.settings.fields import annotation_at
from gateway.settings.renamed import ANY, RENAMED, RenamedSetting

MODELS: dict[str, Any] = {"models": [{"name": "tiny", "workers": [{"url": "http://a"}]}]}
BEDROCK = {"model_id": "m", "region": "us-east-1"}


def built(data: dict[str, Any], **environ: str) -> tuple[Settings, list[str]]:
    warnings: list[str] = []
    return build(MODELS | data, environ, warn=warnings.append), warnings


def a_model(**fields: Any) -> dict[str, Any]:
    return {"models": [{**MODELS["models"][0], **fields}]}


@pytest.mark.parametrize(
    ("former", "today", "old", "new"),
    [
        (
            {"routing": {"most_waiting": 7}},
            {"routing": {"max_waiting": 7}},
            "routing.most_waiting",
            "routing.max_waiting",
        ),
        (
            {"store": {"away_budget": "closed"}},
            {"store": {"on_unavailable_budget": "fail_closed"}},
            "store.away_budget",
            "store.on_unavailable_budget: fail_closed",
        ),
        (
            {"teams": [{"name": "b", "model_limits": {"tiny": {"concurrent": 5}}}]},
            {"teams": [{"name": "b", "model_limits": {"tiny": {"max_concurrent_requests": 5}}}]},
            "teams[0].model_limits.tiny.concurrent",
            "teams[0].model_limits.tiny.max_concurrent_requests",
        ),
        (
            {"guardrails": [{"name": "g", "kind": "pii", "when_away": "open"}]},
            {"guardrails": [{"name": "g", "kind": "pii", "on_unavailable": "fail_open"}]},
            "guardrails[0].when_away",
            "guardrails[0].on_unavailable: fail_open",
        ),
        (
            a_model(adapter_of="base"),
            a_model(adapter={"of": "base"}),
            "models[0].adapter_of",
            "models[0].adapter.of",
        ),
        (
            a_model(bedrock=BEDROCK, fallbacks=[{"openai": {"url": "http://o/v1"}}]),
            a_model(fallbacks=[{"openai": {"url": "http://o/v1"}}, {"bedrock": BEDROCK}]),
            "models[0].bedrock",
            "models[0].fallbacks[1].bedrock",
        ),
    ],
)
def test_a_former_name_is_accepted_with_a_warning(
    former: dict[str, Any], today: dict[str, Any], old: str, new: str
) -> None:
    assert (built(today)[0], [f"{old} is deprecated: use {new}."]) == built(former)


@pytest.mark.parametrize(
    ("variable", "value", "today", "new"),
    [
        ("WARMGATE_SERVER__UNREAD_S", "7", {"server": {"write_timeout_s": 7}}, "WARMGATE_SERVER__WRITE_TIMEOUT_S"),
        (
            "WARMGATE_STORE__AWAY_TOKENS",
            "closed",
            {"store": {"on_unavailable_tokens": "fail_closed"}},
            "WARMGATE_STORE__ON_UNAVAILABLE_TOKENS: fail_closed",
        ),
        (
            "WARMGATE_MODELS__0__ADAPTER_OF",
            "base",
            a_model(adapter={"of": "base"}),
            "WARMGATE_MODELS__0__ADAPTER__OF",
        ),
    ],
)
def test_a_former_variable_is_accepted_with_a_warning(
    variable: str, value: str, today: dict[str, Any], new: str
) -> None:
    assert (built(today)[0], [f"{variable} is deprecated: use {new}."]) == built({}, **{variable: value})


def test_variables_of_the_former_fallback_set_the_entry_that_stands_for_it() -> None:
    region = {"WARMGATE_MODELS__0__BEDROCK__REGION": "eu-west-1"}
    both = {"WARMGATE_MODELS__0__BEDROCK__MODEL_ID": "m", **region}
    expected = built(a_model(fallbacks=[{"bedrock": {"model_id": "m", "region": "eu-west-1"}}]))[0]

    assert expected == built(a_model(bedrock=BEDROCK), **region)[0] == built({}, **both)[0]


def test_both_names_at_once_are_refused() -> None:
    with pytest.raises(SettingsError) as refused:
        build(
            {**MODELS, "server": {"unread_s": 1, "write_timeout_s": 2}},
            {"WARMGATE_TRACING__MOST_WAITING": "1", "WARMGATE_TRACING__MAX_WAITING": "2"},
        )

    assert [
        "server.unread_s is the former name of server.write_timeout_s, which is set too. Remove it.",
        (
            "WARMGATE_TRACING__MOST_WAITING is the former name of WARMGATE_TRACING__MAX_WAITING, which is set too. "
            "Remove it."
        ),
    ] == refused.value.sentences


def test_a_variable_goes_before_a_former_name_in_the_file() -> None:
    settings, _ = built({"server": {"unread_s": 1}}, WARMGATE_SERVER__WRITE_TIMEOUT_S="2")

    assert 2 == settings.server.write_timeout_s


@pytest.mark.parametrize("renamed", RENAMED)
def test_every_new_name_is_a_setting_and_no_former_one_is(renamed: RenamedSetting) -> None:
    def example(place: Place) -> Place:
        entries = ("m" if place[i - 1] == "model_limits" else 0 for i in range(len(place)))
        return tuple(entry if step == ANY else step for step, entry in zip(place, entries, strict=True))

    assert annotation_at(example(renamed.new)) is not None
    assert None is annotation_at(example(renamed.old))


def test_null_in_a_former_place_sets_nothing() -> None:
    settings, warnings = built(a_model(adapter_of=None, bedrock=None))

    assert built({})[0] == settings
    assert 2 == len(warnings)


def test_groups_of_a_wrong_kind_are_left_to_the_schema() -> None:
    with pytest.raises(SettingsError, match="models"):
        build({"models": [3], "teams": {"a": 1}, "routing": [1]}, {})
