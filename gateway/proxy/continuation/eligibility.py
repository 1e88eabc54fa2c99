"""Decides by the fields of a body whether another worker can continue its answer.

By token ids, the answer must not depend on where the output begins. Presence and frequency penalties, stop strings,
forbidden words and grammars look at the output alone, and would begin again. An unknown field may be of that kind, so
its answer is not continued either, unless the field has no effect.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Raw

Fields = Mapping[str, Raw]
"""The fields of a body, not decoded."""

PASSED_ON = frozenset(
    {
        "model",
        "stream",
        "stream_options",
        "stream_interval",
        "return_token_ids",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "repetition_penalty",  # which counts the prompt as well
        "seed",
        "logit_bias",
        "allowed_token_ids",
        "stop_token_ids",
        "include_stop_str_in_output",
        "ignore_eos",
        "min_tokens",
        "skip_special_tokens",
        "spaces_between_special_tokens",
        "priority",
        "request_id",
        "session_id",
        "cache_salt",
        "user",
    }
)
"""Fields that are passed on unchanged; only `min_tokens` is lowered."""

_SPENT = frozenset(
    {
        "messages",
        "prompt",
        "max_tokens",
        "max_completion_tokens",
        "add_special_tokens",
        "add_generation_prompt",
        "continue_final_message",
        "chat_template",
        "chat_template_kwargs",
        "documents",
        "reasoning_effort",
        "include_reasoning",
        "truncate_prompt_tokens",
        "truncation_side",
        "parallel_tool_calls",
        "mm_processor_kwargs",
        "media_io_kwargs",
        "length_penalty",  # of beams only
        "metadata",
        "store",
        "service_tier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
    }
)
"""Fields that made the prompt, which is passed on as ids, or do not affect the tokens."""

_TOOLS = frozenset({"tools", "tool_choice"})
_NEVER = frozenset(
    {
        "n",
        "best_of",
        "use_beam_search",
        "echo",
        "suffix",
        "logprobs",
        "top_logprobs",
        "prompt_logprobs",
        "functions",
        "function_call",
        "response_format",
        "structured_outputs",
        "guided_json",
        "guided_regex",
        "guided_choice",
        "guided_grammar",
        "json_schema",
        "regex",
        "ebnf",
        "structural_tag",
        "prompt_embeds",
        "kv_transfer_params",
        "ec_transfer_params",
        "audio",
    }
)
"""Fields under which a cut text cannot be continued: they give the answer a shape, or rules for all of it."""


def is_exact_by_tokens(fields: Fields) -> bool:
    """Return whether another worker continues exactly after the ids of the prompt and the answer so far."""
    known = PASSED_ON | _SPENT | _TOOLS
    if not all(name in known or _has_no_effect(name, value) for name, value in fields.items()):
        return False
    return not _may_call(fields) and _is_all_text(fields.get("messages"))


def is_possible_by_text(fields: Fields) -> bool:
    """Return whether another worker can continue after the text so far, though not exactly."""
    return not _may_call(fields) and all(
        _has_no_effect(name, value) for name, value in fields.items() if name in _NEVER
    )


def _has_no_effect(name: str, value: Raw) -> bool:
    """Return whether the field could be absent."""
    text = bytes(value)
    try:
        return _is_neutral(name, text)
    except msgspec.DecodeError:  # a number too large for a float, or a type that is a number
        return False


def _is_neutral(name: str, text: bytes) -> bool:
    match name:
        case "logprobs":  # of completions 0 is a number of them
            return text in {b"null", b"false"}
        case "n" | "best_of":
            return text in {b"null", b"1"}
        case "response_format":
            return text == b"null" or _decode_type(text) == _Typed("text")
        case "modalities":
            return text == b"null" or msgspec.json.decode(text) == ["text"]
        case _:
            return text in {b"null", b"false"} or not msgspec.json.decode(text)


def _may_call(fields: Fields) -> bool:
    """Return whether the answer may call a tool. In vLLM, tools without a choice mean ``auto``."""
    tools = fields.get("tools")
    if tools is None or _has_no_effect("tools", tools):
        return False
    return bytes(fields.get("tool_choice", Raw(b"null"))) != b'"none"'


def _is_all_text(messages: Raw | None) -> bool:
    """Return whether *messages* have text only: token ids of images are only placeholders."""
    if messages is None:
        return True
    try:
        contents = [bytes(message.content) for message in _decode_messages(messages)]
        lists = [content for content in contents if content[:1] not in {b'"', b"n"}]
        return all(part.type in _TEXTS for content in lists for part in _decode_parts(content))
    except msgspec.DecodeError:
        return False


class _Message(msgspec.Struct, gc=False):
    content: Raw = Raw(b"null")


class _Typed(msgspec.Struct, gc=False):
    type: str | None = None


_TEXTS = frozenset({"text", "input_text", "output_text", "refusal"})
_decode_messages = msgspec.json.Decoder(list[_Message]).decode
_decode_parts = msgspec.json.Decoder(list[_Typed]).decode
_decode_type = msgspec.json.Decoder(_Typed).decode
