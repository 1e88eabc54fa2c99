"""Parts of a request that go into the prompt: token ids, texts, or a chat. Data only."""

from collections.abc import Sequence
from typing import Any

import msgspec

JsonObject = dict[str, Any]


class AskedIds(msgspec.Struct, frozen=True):
    """Prompts that are token ids already; at least one."""

    prompts: Sequence[Sequence[int]]


class AskedTexts(msgspec.Struct, frozen=True):
    """Prompts as plain text; at least one."""

    prompts: Sequence[str]
    add_special_tokens: bool = True
    """The tokenizer's own begin and end tokens go round each."""


class AskedChat(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation to be rendered by the model's chat template, in the terms of ``/v1/chat/completions``."""

    messages: Sequence[JsonObject]
    tools: Sequence[JsonObject] | None = None
    """Tools in the form for the template, see `gateway.models.tokenizing.tools`."""
    tool_choice_none: bool = False
    documents: Sequence[JsonObject] | None = None
    template_kwargs: JsonObject | None = None
    reasoning_effort: str | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    add_special_tokens: bool = False


Asked = AskedIds | AskedTexts | AskedChat
