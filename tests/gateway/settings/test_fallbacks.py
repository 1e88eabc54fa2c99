"""The groups for what answers when a model's own workers cannot."""

import pytest

from gateway.cascade.assembly import fallbacks_of
from gateway.settings import OpenAIEndpointSettings
from tests.gateway.settings.examples import parsed, sentences, with_model

BEDROCK = {"model_id": "m", "region": "us-east-1"}
OPENAI = {"url": "https://llm.example.com/v1"}


def test_fallbacks_keep_their_order_and_bedrock_is_the_last() -> None:
    settings = parsed(
        with_model(fallbacks=[{"openai": OPENAI}, {"bedrock": BEDROCK}], bedrock={**BEDROCK, "model_id": "n"})
    )
    named = [
        each.url if isinstance(each, OpenAIEndpointSettings) else each.model_id
        for each in fallbacks_of(settings.models[0])
    ]

    assert ["https://llm.example.com/v1", "m", "n"] == named


@pytest.mark.parametrize("fallback", [{}, {"openai": OPENAI, "bedrock": BEDROCK}])
def test_a_fallback_is_of_one_kind(fallback: dict[str, object]) -> None:
    assert ["models[0].fallbacks[0] needs either bedrock or openai, and not both."] == sentences(
        with_model(fallbacks=[fallback])
    )


def test_bedrock_needs_a_region_from_somewhere() -> None:
    """The place of the one that lacks it is named."""
    text = "is needed: set it, or bedrock.region, or AWS_REGION."

    assert [f"models[0].fallbacks[0].bedrock.region {text}"] == sentences(
        with_model(fallbacks=[{"bedrock": {"model_id": "m"}}])
    )


def test_an_api_key_of_bedrock_has_to_be_somewhere() -> None:
    text = with_model() + "\nbedrock: {auth: bearer}"

    assert ["bedrock.bearer_token is needed, or bearer_token_file."] == sentences(text)
    assert (
        "/run/key" == parsed(text.replace("bearer}", "bearer, bearer_token_file: /run/key}")).bedrock.bearer_token_file
    )
