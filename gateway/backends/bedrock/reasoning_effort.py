"""Conversion of the requested reasoning effort to the request fields of each model family."""

from collections.abc import Mapping
from typing import Any

from gateway.backends.bedrock.family import Family
from gateway.protocol.errors import InvalidField

_LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_THREE = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}

# Claude thinks within a budget of tokens, at least 1024, that is part of maxTokens; the steps are LiteLLM's.
_BUDGETS = {"low": 1024, "medium": 2048, "high": 4096}
_LEAST_BUDGET = 1024
_TOKENS_TO_SAY_SOMETHING = 256


def read_effort(fields: Mapping[str, Any]) -> str | None:
    """Return the reasoning effort that a chat request sets: ``none`` for no reasoning, or None if the request sets no
    effort.

    vLLM's ``chat_template_kwargs`` switches apply only if OpenAI's ``reasoning_effort`` is not set.

    Raises:
        InvalidField: if the effort level is unknown.
    """
    level = fields.get("reasoning_effort")
    if level is not None:
        if level not in _LEVELS:
            raise InvalidField(f"'reasoning_effort' must be one of {', '.join(_LEVELS)}", param="reasoning_effort")
        return str(level)
    options = fields.get("chat_template_kwargs")
    if isinstance(options, dict):
        for name in ("enable_thinking", "thinking"):
            if isinstance(options.get(name), bool):
                return "medium" if options[name] else "none"
    return None


def effort_fields(level: str, family: Family, *, max_tokens: int) -> dict[str, Any] | None:
    """Return the model-specific fields for the reasoning effort *level*, or None if the family does not support it."""
    if level == "none":
        # Most families think only when asked. gpt-oss always thinks, and refuses "none".
        return {"reasoning_effort": "low"} if family.name == "gpt-oss" else {}
    own: dict[str, Any] | None = None
    match family.effort, _THREE[level]:
        case "reasoning_effort", three:
            own = {"reasoning_effort": three}
        case "reasoning_config", three:  # Qwen has two
            own = {"reasoning_config": "low" if three == "low" else "high"}
        case "reasoning_config_nova", three:
            # Nova's highest wants no limit of the output, and here there always is one.
            effort = "low" if three == "low" else "medium"
            own = {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": effort}}
        case "thinking_adaptive", three:
            effort = "max" if level in ("xhigh", "max") else three
            own = {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}
        case "thinking", three:
            budget = min(_BUDGETS[three], max_tokens - _TOKENS_TO_SAY_SOMETHING)
            if budget >= _LEAST_BUDGET:
                own = {"thinking": {"type": "enabled", "budget_tokens": budget}}
    return own
