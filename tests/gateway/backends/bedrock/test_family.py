from typing import get_args

import pytest

from gateway.backends.bedrock.family import FAMILIES, OTHER, family_of
from gateway.settings.fallbacks import FamilyName


@pytest.mark.parametrize(
    ("model_id", "name"),
    [
        ("us.meta.llama3-3-70b-instruct-v1:0", "llama"),
        ("us.meta.llama4-maverick-17b-instruct-v1:0", "llama"),
        ("qwen.qwen3-32b-v1:0", "qwen"),
        ("qwen.qwen3-coder-next", "qwen"),
        ("openai.gpt-oss-120b-1:0", "gpt-oss"),
        ("zai.glm-5", "glm"),
        ("global.zai.glm-5.3", "glm"),
        ("moonshotai.kimi-k2.5", "kimi"),
        ("moonshot.kimi-k2-thinking", "kimi"),
        ("deepseek.v3.2", "deepseek"),
        ("us.deepseek.r1-v1:0", "deepseek"),
        ("minimax.minimax-m2.5", "minimax"),
        ("mistral.devstral-2-123b", "mistral"),
        ("google.gemma-3-27b-it", "gemma"),
        ("nvidia.nemotron-nano-3-30b", "other"),
        ("us.amazon.nova-2-lite-v1:0", "nova"),
        ("us-gov.anthropic.claude-haiku-4-5-20251001-v1:0", "claude"),
        ("openai.gpt-5.6", "other"),
        ("arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc", "other"),
        ("arn:aws:bedrock:us-east-1::foundation-model/qwen.qwen3-32b-v1:0", "qwen"),
    ],
)
def test_a_model_id_reports_its_family(model_id: str, name: str) -> None:
    """With or without a region before it; an ARN only if it ends in such an id."""
    assert name == family_of(model_id).name


def test_the_setting_wins_over_the_id() -> None:
    """An application inference profile is reported by the setting; a family's own id reports the version as well."""
    arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"

    assert FAMILIES["llama"] == family_of(arn, "llama")
    assert FAMILIES["gemma"] == family_of("qwen.qwen3-32b-v1:0", "gemma")
    assert family_of("qwen.qwen3-32b-v1:0") == family_of("qwen.qwen3-32b-v1:0", "qwen")
    assert OTHER == family_of("qwen.qwen3-32b-v1:0", "other")


def test_a_family_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"family 'lama'\. Choose auto or one of llama, "):
        family_of("qwen.qwen3-32b-v1:0", "lama")


def test_the_setting_offers_just_the_families_that_are_there() -> None:
    assert {"auto", *FAMILIES} == set(get_args(FamilyName))


@pytest.mark.parametrize(
    ("model_id", "images", "tools", "schema", "effort"),
    [
        ("us.meta.llama3-3-70b-instruct-v1:0", False, True, False, None),
        ("meta.llama3-70b-instruct-v1:0", False, False, False, None),
        ("us.meta.llama3-2-90b-instruct-v1:0", True, True, False, None),
        ("us.meta.llama4-scout-17b-instruct-v1:0", True, True, False, None),
        ("mistral.mistral-7b-instruct-v0:2", False, False, False, None),
        ("mistral.mistral-large-3-675b-instruct", True, True, True, None),
        ("anthropic.claude-3-haiku-20240307-v1:0", True, True, False, None),
        ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", True, True, False, "thinking"),
        ("us.anthropic.claude-sonnet-4-20250514-v1:0", True, True, False, "thinking"),
        ("us.anthropic.claude-opus-4-1-20250805-v1:0", True, True, False, "thinking"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", True, True, True, "thinking"),
        ("us.anthropic.claude-opus-4-6-v1", True, True, True, "thinking_adaptive"),
        ("us.anthropic.claude-opus-4-7", True, True, False, "thinking_adaptive"),
        ("us.anthropic.claude-sonnet-5", True, True, False, "thinking_adaptive"),
        ("us.amazon.nova-micro-v1:0", False, True, False, None),
        ("us.amazon.nova-2-lite-v1:0", True, True, False, "reasoning_config_nova"),
        ("qwen.qwen3-32b-v1:0", False, True, True, "reasoning_config"),
        ("qwen.qwen3-235b-a22b-2507-v1:0", False, True, True, None),
        ("qwen.qwen3-vl-235b-a22b", True, True, True, None),
        ("openai.gpt-oss-20b-1:0", False, True, False, "reasoning_effort"),
        ("us.deepseek.r1-v1:0", False, False, False, None),
        ("deepseek.v3-v1:0", False, True, True, "reasoning_effort"),
        ("google.gemma-3-4b-it", True, True, False, None),
        ("google.gemma-3-12b-it", True, True, True, None),
    ],
)
def test_versions_differ_within_a_family(
    model_id: str, images: bool, tools: bool, schema: bool, effort: str | None
) -> None:
    family = family_of(model_id)

    assert (images, tools, schema, effort) == (
        family.takes_images,
        family.takes_tools,
        family.native_schema,
        family.effort,
    )


def test_the_newest_claude_takes_no_sampling() -> None:
    assert family_of("anthropic.claude-sonnet-4-6").takes_sampling
    assert not family_of("anthropic.claude-opus-4-8").takes_sampling
