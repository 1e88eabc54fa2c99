"""The fields of request bodies that are looked at, as msgspec decodes them; all others are skipped.

By themselves, because compiled they would lose the types by which they are decoded (see deploy/compile_core.py).
"""

from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from gateway.engine_fields import EngineFields, without_engine_fields

Part = str | dict[str, Any]
"""Of a message's content."""


class Message(msgspec.Struct, gc=False):
    """What a chat template reads of one message; other keys are ignored."""

    role: str
    content: str | list[Part] | None = None
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
    messages: list[Message] | None = None


class ChatsBody(ChatFields, gc=False):
    messages: list[list[Message]] | None = None


class TextBody(CommonFields, gc=False):
    prompt: str | list[str | int | list[int]] | None = None
    prompt_embeds: Any = None


# Numbers inside free-form JSON keep their spelling: nothing here computes with them, and 1e999 is no error.
decode_chats = msgspec.json.Decoder(ChatsBody, float_hook=Raw).decode
decode_text = msgspec.json.Decoder(TextBody, float_hook=Raw).decode

decode_any_chat = msgspec.json.Decoder(ChatBody, float_hook=Raw).decode
decode_chat = msgspec.json.Decoder(without_engine_fields(ChatBody), float_hook=Raw).decode
"""The same for a body without engine fields, which needs not be looked through for them afterwards.

Raises:
    msgspec.ValidationError: it has one, or another fault.
"""
