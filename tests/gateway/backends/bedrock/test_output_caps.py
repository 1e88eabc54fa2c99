import pytest

from gateway.backends.bedrock.output_caps import output_cap


@pytest.mark.parametrize(
    ("model_id", "tokens"),
    [
        ("us.meta.llama3-3-70b-instruct-v1:0", 4096),
        ("meta.llama4-scout-17b-instruct-v1:0", 8192),
        ("qwen.qwen3-32b-v1:0", 8192),
        ("qwen.qwen3-coder-480b-a35b-v1:0", 16_000),
        ("openai.gpt-oss-120b-1:0", 16_000),
        ("us.anthropic.claude-3-haiku-20240307-v1:0", 4096),
        ("anthropic.claude-opus-4-1-20250805-v1:0", 32_000),
        ("anthropic.claude-opus-4-20250514-v1:0", 32_000),
        ("global.anthropic.claude-haiku-4-5-20251001-v1:0", 64_000),
        ("anthropic.claude-sonnet-4-6", 64_000),
        ("anthropic.claude-opus-4-6-v1", 128_000),
        ("us.amazon.nova-pro-v1:0", 10_000),
        ("deepseek.r1-v1:0", 8192),
        ("moonshotai.kimi-k2.5", 16_000),
        ("arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.meta.llama3-3-70b-instruct-v1:0", 4096),
        ("arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc", None),
        ("somebody.elses-model", None),
    ],
)
def test_caps_are_those_of_the_model(model_id: str, tokens: int | None) -> None:
    assert tokens == output_cap(model_id)
