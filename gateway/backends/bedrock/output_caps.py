"""Output token limits of models on Bedrock, by the beginning of the model id.

Source: LiteLLM's map of prices and context windows (litellm 1.109.1 on PyPI, October 2026), which cites AWS's model
pages. If its rows for one model differ, the lowest value is used. Models without a row and models known only by an ARN
have no limit here. The limit named in Bedrock's error is then used (see refusals.py).
"""

import re

_CAPS: tuple[tuple[str, int], ...] = (
    (r"meta\.llama3-(8b|70b)", 2048),
    (r"meta\.llama3", 4096),
    (r"meta\.llama4", 8192),
    (r"mistral\.mistral-large-2407", 8191),
    (r"mistral\.mistral-large-3|mistral\.devstral-2", 32_000),
    (r"mistral\.magistral", 40_000),
    (r"mistral\.pixtral", 16_384),
    (r"mistral\.(ministral-3)", 8000),
    (r"mistral\.voxtral", 8192),
    (r"mistral\.(mistral-(7b|small|large-2402)|mixtral)", 4096),
    (r"anthropic\.claude-3-5-(haiku|sonnet-20241022)", 8192),
    (r"anthropic\.claude-3-7", 8192),
    (r"anthropic\.claude-3", 4096),
    (r"anthropic\.claude-opus-4-(1\b|\d{8})", 32_000),
    (r"anthropic\.claude-(sonnet-4-\d{8}|[a-z]+-4-5|sonnet-4-6)", 64_000),
    (r"anthropic\.claude-[a-z]+-(4-[6-9]|[5-9])", 128_000),
    (r"amazon\.nova-2", 64_000),
    (r"amazon\.nova-(micro|lite|pro|premier)", 10_000),
    (r"qwen\.qwen3-coder", 16_000),
    (r"qwen\.qwen3-32b", 8192),
    (r"qwen\.qwen3", 8000),
    (r"openai\.gpt-oss", 16_000),
    (r"deepseek\.r1", 8192),
    (r"deepseek\.v3", 8000),
    (r"zai\.glm-(4\.7|5)", 128_000),
    (r"moonshot(ai)?\.kimi-k2", 16_000),
    (r"moonshot(ai)?\.kimi-k3", 131_072),
    (r"minimax\.minimax-m2", 8000),
    (r"google\.gemma-3", 8000),
    (r"nvidia\.nemotron-super-3", 32_000),
    (r"nvidia\.nemotron-nano", 8000),
    (r"writer\.palmyra-x", 8192),
)
_COMPILED = tuple((re.compile(rf"(?:[a-z-]+\.)?{beginning}"), tokens) for beginning, tokens in _CAPS)


def output_cap(model_id: str) -> int | None:
    """Return the output limit of *model_id* in tokens, or None if unknown, as for an application inference profile."""
    own = model_id.rpartition("/")[2]
    return next((tokens for beginning, tokens in _COMPILED if beginning.match(own)), None)
