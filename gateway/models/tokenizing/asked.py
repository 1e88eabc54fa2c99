"""Parts of a request that determine its prompt: token ids, texts, or a chat."""

from collections.abc import Sequence
from typing import Any

import msgspec

JsonObject = dict[str, Any]


class AskedIds(msgspec.Struct, frozen=True):
    """Prompts that are given as token ids. There is at least one prompt."""

    prompts: Sequence[Sequence[int]]


class AskedTexts(msgspec.Struct, frozen=True):
    """Prompts that are given as plain text. There is at least one prompt."""

    prompts: Sequence[str]
    add_special_tokens: bool = True
    """Whether the tokenizer adds its begin and end tokens to each prompt."""


class AskedChat(msgspec.Struct, frozen=True, kw_only=True):
    """Conversation for the model's chat template, with the fields of ``/v1/chat/completions``."""

    messages: Sequence[JsonObject]
    tools: Sequence[JsonObject] | None = None
    """Tools in the form that chat templates expect, see `gateway.models.tokenizing.tools`."""
    tool_choice_none: bool = False
    documents: Sequence[JsonObject] | None = None
    template_kwargs: JsonObject | None = None
    reasoning_effort: str | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    add_special_tokens: bool = False


Asked = AskedIds | AskedTexts | AskedChat
