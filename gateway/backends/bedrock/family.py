"""Model families on Bedrock, and the request features that each one supports.

Converse is one interface to models that accept different requests. Each family is one value from which requests are
built, and no other module depends on model names. Unknown models are assumed to support a feature. If Bedrock rejects a
field by name, the request is sent again without it.

Sources are AWS's user guide, recordings of the real service, and findings of other Converse clients (pydantic-ai's
profiles of November 2026, LiteLLM's price map of October 2026). They could not be verified against Bedrock. A canary
request verifies them for an account.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

Effort = Literal["reasoning_effort", "reasoning_config", "reasoning_config_nova", "thinking", "thinking_adaptive"]
"""Request field that sets the reasoning effort of a model family (see reasoning_effort.py)."""
Choice = Literal["any", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Request features that one model family supports."""

    name: str
    """Name of a model family, as used in the setting ``family``."""
    takes_images: bool = True
    takes_tools: bool = True
    streams_tools: bool = True
    """Whether ConverseStream supports tools for the models. If not, the gateway calls Converse and streams its complete
    response.
    """
    forced_choices: frozenset[Choice] = frozenset[Choice](("any", "tool"))
    """Values of ``toolChoice`` that the models accept in addition to ``auto``."""
    single_call_switch: bool = False
    """Whether the model-specific field ``disable_parallel_tool_use`` is supported."""
    results_alone: bool = False
    """Whether a user turn with tool results must contain nothing but tool results."""
    documents_beside_results: bool = True
    """Whether a user turn with tool results is allowed to contain documents."""
    text_beside_calls: bool = True
    """Whether one assistant turn is allowed to contain both text and tool calls."""
    images_in_results: bool = False
    result_status: bool = False
    """Whether the value ``error`` is allowed in ``toolResult.status``."""
    json_results: bool = False
    """Whether tool results must be sent as ``json`` instead of text."""
    native_schema: bool = False
    """Whether ``outputConfig.textFormat`` and ``strict`` tools are supported."""
    takes_stops: bool = True
    takes_blank_stops: bool = True
    """Whether a stop string is allowed to consist only of white space."""
    takes_sampling: bool = True
    """Whether ``temperature``, ``topP`` and ``top_k`` are supported."""
    top_p_beside_temperature: bool = True
    top_k: Literal["top_k", "topK"] | None = None
    """Name of the top-k sampling field, which is different for Claude and Nova, or None if it is not supported."""
    effort: Effort | None = None
    inline_reasoning: bool = True
    """Whether the model sometimes writes reasoning between tags at the start of its text (see inline_reasoning.py)."""
    keeps_reasoning: Literal["signed", "plain"] | None = None
    """Reasoning from earlier turns that is sent to the model again: only signed reasoning, all of it as plain text, or
    no reasoning. Kimi, MiniMax, GLM and DeepSeek V3 need it between tool calls (sources: their model cards, and
    pydantic-ai's profiles of their APIs).
    """


OTHER = Family(name="other")
"""Family for models that are unknown or identified only by an ARN."""

_NONE: frozenset[Choice] = frozenset()

# What holds for every model of the family: a version that cannot be read from an ARN may be any.
_LLAMA = Family(
    name="llama",
    inline_reasoning=False,
    streams_tools=False,
    forced_choices=_NONE,
    results_alone=True,
    text_beside_calls=False,
    images_in_results=True,
)
_MISTRAL = Family(
    name="mistral",
    inline_reasoning=False,
    forced_choices=frozenset[Choice](("any",)),
    results_alone=True,
    json_results=True,
)
_CLAUDE = Family(
    name="claude",
    keeps_reasoning="signed",
    inline_reasoning=False,
    single_call_switch=True,
    documents_beside_results=False,
    images_in_results=True,
    result_status=True,
    takes_blank_stops=False,
    top_p_beside_temperature=False,
    top_k="top_k",
)
_NOVA = Family(name="nova", inline_reasoning=False, images_in_results=True, result_status=True, top_k="topK")
_QWEN = Family(name="qwen")
_GPT_OSS = Family(name="gpt-oss", takes_images=False, takes_stops=False, effort="reasoning_effort")
_DEEPSEEK = Family(name="deepseek", takes_images=False)
_GLM = Family(name="glm", keeps_reasoning="plain", takes_images=False, native_schema=True)
_KIMI = Family(name="kimi", keeps_reasoning="plain", native_schema=True)
_MINIMAX = Family(name="minimax", keeps_reasoning="plain", takes_images=False)
_GEMMA = Family(name="gemma", inline_reasoning=False)

FAMILIES: Mapping[str, Family] = {
    family.name: family
    for family in (
        _LLAMA,
        _MISTRAL,
        _CLAUDE,
        _NOVA,
        _QWEN,
        _GPT_OSS,
        _DEEPSEEK,
        _GLM,
        _KIMI,
        _MINIMAX,
        _GEMMA,
        OTHER,
    )
}
"""Model families by name, for the setting ``family``."""

_CLAUDE_4_5 = replace(_CLAUDE, native_schema=True, effort="thinking")

# The beginning of a model id, after region and dot, and what it says; the first that fits counts.
_MODELS: tuple[tuple[str, Family], ...] = (
    (r"meta\.llama3-(8b|70b)|meta\.llama3-2-[13]b", replace(_LLAMA, takes_images=False, takes_tools=False)),
    (r"meta\.llama3-[13]-", replace(_LLAMA, takes_images=False)),
    (r"meta\.llama", _LLAMA),
    (r"mistral\.mi(stral-7b|xtral-8x)", replace(_MISTRAL, takes_images=False, takes_tools=False)),
    (r"mistral\.(mistral-large-3|ministral-3|magistral-small|voxtral)", replace(_MISTRAL, native_schema=True)),
    (r"mistral\.", _MISTRAL),
    (r"anthropic\.claude-3-[5hos]", replace(_CLAUDE, top_p_beside_temperature=True)),
    (r"anthropic\.claude-(3-7|(opus|sonnet)-4-(1\b|\d{8}))", replace(_CLAUDE, effort="thinking")),
    (r"anthropic\.claude-[a-z]+-4-5", _CLAUDE_4_5),
    (r"anthropic\.claude-[a-z]+-4-6", replace(_CLAUDE_4_5, effort="thinking_adaptive")),
    (
        r"anthropic\.claude-[a-z]+-(4-[7-9]|[5-9])",
        replace(_CLAUDE, effort="thinking_adaptive", takes_sampling=False),
    ),
    (r"anthropic\.", _CLAUDE),
    (r"amazon\.nova-micro", replace(_NOVA, takes_images=False)),
    (r"amazon\.nova-2", replace(_NOVA, effort="reasoning_config_nova")),
    (r"amazon\.nova", _NOVA),
    (r"qwen\.qwen3-vl", replace(_QWEN, native_schema=True)),
    (r"qwen\.qwen3-32b", replace(_QWEN, takes_images=False, native_schema=True, effort="reasoning_config")),
    (r"qwen\.qwen3-", replace(_QWEN, takes_images=False, native_schema=True)),
    (r"qwen\.", _QWEN),
    (r"openai\.gpt-oss", _GPT_OSS),
    (r"deepseek\.r1", replace(_DEEPSEEK, takes_tools=False)),
    (r"deepseek\.v3", replace(_DEEPSEEK, native_schema=True, effort="reasoning_effort", keeps_reasoning="plain")),
    (r"deepseek\.", _DEEPSEEK),
    (r"zai\.glm", _GLM),
    (r"moonshot(ai)?\.kimi-k2-thinking", replace(_KIMI, takes_images=False)),
    (r"moonshot(ai)?\.kimi", _KIMI),
    (r"minimax\.minimax-m2", replace(_MINIMAX, native_schema=True)),
    (r"minimax\.", _MINIMAX),
    (r"google\.gemma-3-(12b|27b)", replace(_GEMMA, native_schema=True)),
    (r"google\.gemma", _GEMMA),
    (r"nvidia\.nemotron-nano", replace(OTHER, native_schema=True)),
    (r"writer\.palmyra", replace(OTHER, results_alone=True)),
)
_COMPILED = tuple((re.compile(rf"(?:[a-z-]+\.)?{beginning}"), family) for beginning, family in _MODELS)


def family_of(model_id: str, named: str = "auto") -> Family:
    """Return the family of *model_id*, including differences between versions if the id shows the version.

    An ARN shows the version only if it ends with the model's id. Application inference profiles and imported models are
    `OTHER`. *named*, the value of the setting, overrides what the id says unless it is ``auto``.

    Raises:
        ValueError: if there is no family called *named*.
    """
    own = model_id.rpartition("/")[2]
    known = next((family for beginning, family in _COMPILED if beginning.match(own)), OTHER)
    if named in ("auto", known.name):
        return known
    if named not in FAMILIES:
        raise ValueError(f"Unknown Bedrock model family {named!r}. Choose auto or one of {', '.join(FAMILIES)}")
    return FAMILIES[named]
