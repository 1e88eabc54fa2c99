from typing import Any

import pytest

from gateway.backends.bedrock.family import family_of
from gateway.backends.bedrock.reasoning_effort import effort_fields, read_effort
from gateway.protocol.errors import InvalidField


@pytest.mark.parametrize(
    ("fields", "level"),
    [
        ({}, None),
        ({"reasoning_effort": "high"}, "high"),
        ({"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}}, "none"),
        ({"chat_template_kwargs": {"enable_thinking": True}}, "medium"),
        ({"chat_template_kwargs": {"enable_thinking": False}}, "none"),
        ({"chat_template_kwargs": {"thinking": True}}, "medium"),
        ({"chat_template_kwargs": {"enable_thinking": "yes"}}, None),
        ({"chat_template_kwargs": "x"}, None),
    ],
)
def test_a_level_is_read_from_openais_field_or_vllms_switch(fields: dict[str, Any], level: str | None) -> None:
    assert level == read_effort(fields)


@pytest.mark.parametrize("level", ["much", 3, ["high"], {}])
def test_a_level_that_there_is_not_is_refused(level: object) -> None:
    with pytest.raises(InvalidField, match="'reasoning_effort' must be one of none, minimal, low"):
        read_effort({"reasoning_effort": level})


NOVA = "us.amazon.nova-2-lite-v1:0"
CLAUDE_4_5, CLAUDE_4_6 = "anthropic.claude-haiku-4-5-20251001-v1:0", "anthropic.claude-sonnet-4-6"


@pytest.mark.parametrize(
    ("model_id", "level", "fields"),
    [
        ("openai.gpt-oss-20b-1:0", "none", {"reasoning_effort": "low"}),
        ("openai.gpt-oss-20b-1:0", "minimal", {"reasoning_effort": "low"}),
        ("openai.gpt-oss-20b-1:0", "xhigh", {"reasoning_effort": "high"}),
        ("deepseek.v3.2", "medium", {"reasoning_effort": "medium"}),
        ("deepseek.v3.2", "none", {}),
        ("qwen.qwen3-32b-v1:0", "low", {"reasoning_config": "low"}),
        ("qwen.qwen3-32b-v1:0", "medium", {"reasoning_config": "high"}),
        ("qwen.qwen3-32b-v1:0", "none", {}),
        (NOVA, "minimal", {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}}),
        (NOVA, "high", {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "medium"}}),
        (CLAUDE_4_5, "low", {"thinking": {"type": "enabled", "budget_tokens": 1024}}),
        (CLAUDE_4_5, "high", {"thinking": {"type": "enabled", "budget_tokens": 4096}}),
        (CLAUDE_4_5, "none", {}),
        (CLAUDE_4_6, "medium", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "medium"}}),
        (CLAUDE_4_6, "xhigh", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}),
        ("us.meta.llama3-3-70b-instruct-v1:0", "none", {}),
        ("us.meta.llama3-3-70b-instruct-v1:0", "low", None),
        ("amazon.nova-pro-v1:0", "low", None),
    ],
)
def test_each_family_has_its_own_words(model_id: str, level: str, fields: dict[str, Any] | None) -> None:
    assert fields == effort_fields(level, family_of(model_id), max_tokens=8192)


@pytest.mark.parametrize(("max_tokens", "budget"), [(4352, 4096), (4351, 4095), (1280, 1024), (1279, None)])
def test_claudes_thoughts_leave_room_for_an_answer(max_tokens: int, budget: int | None) -> None:
    """They are part of ``maxTokens``; where there is no room for the least of them, there are not."""
    fields = effort_fields("high", family_of(CLAUDE_4_5), max_tokens=max_tokens)

    assert budget == (fields and fields["thinking"]["budget_tokens"])
