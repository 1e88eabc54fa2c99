"""Fields of requests and answers that the gateway reads, as msgspec types. The decoder skips all other fields.

This module must not be compiled. mypyc drops the field types, which msgspec needs.
"""

from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from gateway.protocol.engine_fields import EngineFields, without_engine_fields

ContentPart = str | dict[str, Any]
"""Part of the content of a message."""


class ChatMessage(msgspec.Struct, gc=False):
    """Fields of a message that chat templates read."""

    role: str
    content: str | list[ContentPart] | None = None
    name: str | None = None
    tool_calls: Any = None
    function_call: Any = None
    tool_call_id: str | None = None


class StreamOptions(msgspec.Struct, gc=False):
    include_usage: bool | None = None


class CommonFields(EngineFields, gc=False):
    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | UnsetType | None = UNSET
    max_tokens: int | float | None = None
    max_completion_tokens: int | float | None = None
    n: int | float | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    cache_salt: str | None = None
    prompt_logprobs: Any = None
    echo: bool | None = None
    logprobs: Any = None


class ChatFields(CommonFields, gc=False):
    tools: Any = None
    functions: Any = None
    documents: Any = None
    chat_template: Any = None
    chat_template_kwargs: Any = None
    reasoning_effort: Any = None


class ChatBody(ChatFields, gc=False):
    messages: list[ChatMessage] | None = None


class ChatsBody(ChatFields, gc=False):
    messages: list[list[ChatMessage]] | None = None


class TextBody(CommonFields, gc=False):
    prompt: str | list[str | int | list[int]] | None = None
    prompt_embeds: Any = None


# Numbers inside free-form JSON stay as written: nothing computes with them, and 1e999 is not an error.
decode_chats = msgspec.json.Decoder(ChatsBody, float_hook=Raw).decode
decode_text = msgspec.json.Decoder(TextBody, float_hook=Raw).decode

decode_any_chat = msgspec.json.Decoder(ChatBody, float_hook=Raw).decode
decode_chat = msgspec.json.Decoder(without_engine_fields(ChatBody), float_hook=Raw).decode
"""Decoder for chat bodies that rejects engine-internal fields, so that no later check for them is needed.

Raises: msgspec.ValidationError: if the body has an engine field or another fault.
"""


class PromptTokensDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class UsageFields(msgspec.Struct, gc=False):
    prompt_tokens: int = 0
    completion_tokens: int | None = None
    prompt_tokens_details: PromptTokensDetails | None = None


class _UsageAnswer(msgspec.Struct, gc=False):
    usage: UsageFields | None = None


decode_answer = msgspec.json.Decoder(_UsageAnswer).decode
