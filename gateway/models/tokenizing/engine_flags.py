"""Start flags of an engine that show in prompts. Data only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.models.tokenizing.conversation import ContentFormat


@dataclass(frozen=True, slots=True)
class EngineFlags:
    """VLLM's flags; the defaults are its own."""

    default_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """``--default-chat-template-kwargs``."""
    content_format: ContentFormat | None = None
    """``--chat-template-content-format``; None: auto."""
    excludes_tools_when_none: bool = False
    """``--exclude-tools-when-tool-choice-none``."""
