"""The groups for what answers when a model's own workers cannot."""

import pytest

from gateway.app.fallbacks import bedrock_fallbacks, fallbacks_of
from tests.gateway.settings.examples import parsed, sentences, with_model

BEDROCK = {"model_id": "m", "region": "us-east-1"}
OPENAI = {"url": "https://llm.example.com/v1"}


def test_fallbacks_keep_their_order_and_bedrock_is_the_last() -> None:
    settings = parsed(
        with_model(fallbacks=[{"openai": OPENAI}, {"bedrock": BEDROCK}], bedrock={**BEDROCK, "model_id": "n"})
    )
    model = settings.models[0]

    assert ["openai", "bedrock", "bedrock"] == [kind for kind, _ in fallbacks_of(model)]
    assert ["m", "n"] == [each.model_id for each in bedrock_fallbacks(model)]


@pytest.mark.parametrize("fallback", [{}, {"openai": OPENAI, "bedrock": BEDROCK}])
def test_a_fallback_is_of_one_kind(fallback: dict[str, object]) -> None:
    [sentence] = sentences(with_model(fallbacks=[fallback]))

    assert sentence.startswith("models[0].fallbacks[0] needs exactly one of bedrock, openai")


def test_bedrock_needs_a_region_from_somewhere() -> None:
    """The place of the one that lacks it is named."""
    text = "is required. Set it, or bedrock.region, or AWS_REGION."

    assert [f"models[0].fallbacks[0].bedrock.region {text}"] == sentences(
        with_model(fallbacks=[{"bedrock": {"model_id": "m"}}])
    )


def test_an_api_key_of_bedrock_has_to_be_somewhere() -> None:
    text = with_model() + "\nbedrock: {auth: bearer}"

    assert ["bedrock.bearer_token or bearer_token_file is required if auth is bearer."] == sentences(text)
    assert (
        "/run/key" == parsed(text.replace("bearer}", "bearer, bearer_token_file: /run/key}")).bedrock.bearer_token_file
    )
