from typing import Any

import pytest
import yaml

from gateway.proxy.guardrails import credentials, national_ids, personal
from gateway.settings import build
from gateway.settings.guardrails import NATIONAL_IDS, PERSONAL, SECRETS
from tests.gateway.settings.examples import sentences

MODEL: dict[str, Any] = {"name": "tiny", "workers": [{"url": "http://a:1"}]}


def written(*guardrails: dict[str, Any], model: dict[str, Any] | None = None, **groups: Any) -> str:
    text: str = yaml.safe_dump({"models": [{**MODEL, **(model or {})}], "guardrails": list(guardrails), **groups})
    return text


def test_a_guardrail_looks_in_both_directions_and_redacts() -> None:
    (made,) = build(yaml.safe_load(written({"name": "pii", "kind": "pii"})), {}).guardrails

    assert ("redact", ("request", "response"), "fail_closed") == (made.action, made.directions, made.on_unavailable)


def test_every_name_in_the_settings_has_detectors() -> None:
    assert set(PERSONAL) == set(personal.DETECTORS)
    assert set(NATIONAL_IDS) == set(national_ids.detectors())
    assert set(SECRETS) == set(credentials.DETECTORS)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kind": "pii", "words": ["x"]}, "guardrails[0].words is allowed only for kind words, but this kind is pii"),
        (
            {"kind": "pii", "max_at_once": 1},
            "guardrails[0].max_at_once is allowed only for kind bedrock or http, but this kind is pii",
        ),
        ({"kind": "http"}, "guardrails[0].url is missing"),
        ({"kind": "bedrock"}, "guardrails[0].guardrail_id is missing"),
        ({"kind": "pii", "most": 1}, "guardrails[0].most is not a setting"),
        ({"kind": "pdf"}, "guardrails[0].kind is 'pdf'; allowed are 'pii', 'secrets'"),
        ({"kind": "x" * 99}, f"guardrails[0].kind is '{'x' * 76}...; allowed are"),
        ({}, "guardrails[0].kind is missing"),
        ({"kind": "words"}, "guardrails[0].words or patterns is required"),
        (
            {"kind": "pii", "directions": []},
            "guardrails[0].directions is empty, so the guardrail would check nothing. List request, response or both",
        ),
        ({"kind": "pii", "detect": ["jwt"]}, "guardrails[0].detect[0] is not one of email, phone"),
        ({"kind": "secrets", "detect": ["email"]}, "guardrails[0].detect[0] is not one of private_key"),
        ({"kind": "pii", "phone_regions": ["de"]}, "guardrails[0].phone_regions[0]"),
        ({"kind": "pii", "replacement": 'a"b'}, "guardrails[0].replacement"),
        ({"kind": "words", "words": ["--"]}, "guardrails[0].words[0]"),
    ],
)
def test_what_does_not_belong_together_is_reported_by_its_field(fields: dict[str, Any], said: str) -> None:
    (sentence,) = sentences(written({"name": "g", **fields}))

    assert sentence.startswith(said)


def test_a_name_that_there_is_not_learns_where_it_stands() -> None:
    text = written(
        {"name": "pii", "kind": "pii"},
        model={"guardrails": ["pii", "pi"]},
        teams=[{"name": "blue", "guardrails": ["other"]}],
    )

    assert [
        "models[0].guardrails[1] is 'pi', but guardrails has no entry with that name.",
        "teams[0].guardrails[0] is 'other', but guardrails has no entry with that name.",
    ] == sentences(text)


def test_two_cannot_have_the_same_name() -> None:
    (sentence,) = sentences(written({"name": "pii", "kind": "pii"}, {"name": "pii", "kind": "secrets"}))

    assert sentence.startswith("guardrails[1].name is 'pii', which is already used by")


def test_a_guardrail_of_bedrock_needs_a_region() -> None:
    reported = {"name": "aws", "kind": "bedrock", "guardrail_id": "g"}
    (sentence,) = sentences(written(reported))

    assert sentence.startswith("guardrails[0].region is required")
    (made,) = build(yaml.safe_load(written({**reported, "region": "us-east-1"})), {}).guardrails
    assert "us-east-1" == (made.region if made.kind == "bedrock" else None)


def test_a_guardrail_is_a_mapping() -> None:
    """The value is not repeated: it may be a secret."""
    assert ["guardrails[0] is not valid; the value must be a mapping."] == sentences(
        yaml.safe_dump({"models": [MODEL], "guardrails": ["pii"]})
    )


def test_variables_set_what_any_kind_has() -> None:
    """The place of a field does not depend on the kind."""
    variables = {"WARMGATE_GUARDRAILS__0__KIND": "http", "WARMGATE_GUARDRAILS__0__URL": "http://x"}
    (made,) = build(yaml.safe_load(written({"name": "it"})), variables).guardrails

    assert ("http", "http://x") == (made.kind, made.url if made.kind == "http" else None)
