"""Startup flags of an engine that affect prompts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.models.tokenizing.conversation import ContentFormat


@dataclass(frozen=True, slots=True)
class EngineFlags:
    """Startup flags of vLLM that affect prompts, with the defaults of vLLM."""

    default_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Value of the engine flag ``--default-chat-template-kwargs``."""
    content_format: ContentFormat | None = None
    """Value of the engine flag ``--chat-template-content-format``, or None for auto."""
    excludes_tools_when_none: bool = False
    """Whether the engine flag ``--exclude-tools-when-tool-choice-none`` is set."""
