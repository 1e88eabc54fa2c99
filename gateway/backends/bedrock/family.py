"""Model families on Bedrock, and what each accepts.

Converse is one interface to models that differ in what they accept. Each family is one value; a request is built from
it, and nothing else knows a model's name. Where nothing is known the generous choice is made: what a model does not
support Bedrock says by name, and a second try can do without it.

The facts are of three kinds: AWS's user guide, recordings of the real service, and what other clients of Converse
found out by trying (pydantic-ai's profiles of November 2026, LiteLLM's price map of October 2026). None could be
tried here; a canary call confirms them for an account.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

Effort = Literal["reasoning_effort", "reasoning_config", "reasoning_config_nova", "thinking", "thinking_adaptive"]
"""Field with which a family is asked to think more or less; see reasoning_effort.py."""
Choice = Literal["any", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Features of one family."""

    name: str
    """Name, as in the setting ``family``."""
    takes_images: bool = True
    takes_tools: bool = True
    streams_tools: bool = True
    """Tool calls come as such in ConverseStream; else such a request goes to Converse, and its answer is replayed."""
    forced_choices: frozenset[Choice] = frozenset[Choice](("any", "tool"))
    """Kinds of ``toolChoice`` that it accepts beside ``auto``."""
    single_call_switch: bool = False
    """``disable_parallel_tool_use`` among the model's own fields."""
    results_alone: bool = False
    """A user turn with tool results may hold nothing else."""
    documents_beside_results: bool = True
    """Whether a message with tool results may also contain documents."""
    text_beside_calls: bool = True
    """An assistant's turn may hold text and tool calls."""
    images_in_results: bool = False
    result_status: bool = False
    """``toolResult.status`` may say ``error``."""
    json_results: bool = False
    """Tool results must be ``json``, not text."""
    native_schema: bool = False
    """``outputConfig.textFormat``, and ``strict`` of a tool."""
    takes_stops: bool = True
    takes_blank_stops: bool = True
    """Stop texts of nothing but white space."""
    takes_sampling: bool = True
    """``temperature``, ``topP`` and ``top_k``."""
    top_p_beside_temperature: bool = True
    top_k: Literal["top_k", "topK"] | None = None
    """Claude's and Nova's name of it."""
    effort: Effort | None = None
    inline_reasoning: bool = True
    """Whether its text may begin with reasoning between tags (inline_reasoning.py)."""
    keeps_reasoning: Literal["signed", "plain"] | None = None
    """Thoughts of the history are shown to it again: those with its signature, or all. Kimi, MiniMax, GLM and DeepSeek
    V3 want them between the calls of tools (their model cards; pydantic-ai's profiles of their own APIs)."""


OTHER = Family(name="other")
"""Unknown, or known only by an ARN."""

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
"""Families by name, for the setting."""

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
    """Return the family of *model_id*, down to the version where the id has it.

    An ARN has it only if it ends in a model's own id: an application inference profile or an imported model is
    `OTHER`. *named*, the setting, wins over what the id says; ``auto`` says nothing.

    Raises:
        ValueError: there is no family of the name *named*.
    """
    own = model_id.rpartition("/")[2]
    known = next((family for beginning, family in _COMPILED if beginning.match(own)), OTHER)
    if named in ("auto", known.name):
        return known
    if named not in FAMILIES:
        raise ValueError(f"there is no family {named!r}: one of {', '.join(FAMILIES)}")
    return FAMILIES[named]
