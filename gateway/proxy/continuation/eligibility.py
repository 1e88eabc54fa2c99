"""Decide from the fields of a request whether another worker can continue its answer.

Continuation by token ids requires that the answer does not depend on where the output begins. Presence and frequency
penalties, stop strings, forbidden words and grammars consider only the output, and would start over. An unknown field
may behave in the same way. Therefore an answer to a request with an unknown field is not continued either, unless the
value of the field has no effect.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Raw

Fields = Mapping[str, Raw]
"""Names and undecoded JSON values of the fields of a request body."""

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
"""Request fields sent unchanged to the worker that continues an answer, except that `min_tokens` is reduced."""

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
        "prompt_cache_options",
        "prompt_cache_retention",
        "safety_identifier",
    }
)
"""Request fields that are not sent to the worker that continues an answer. They only shape the prompt, which is sent as
token ids, or do not affect the tokens.
"""

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
"""Request fields with which text cannot continue an answer, because they set a format or rules for the whole answer."""


def is_exact_by_tokens(fields: Fields) -> bool:
    """Return whether another worker can continue the answer exactly from the token ids of the prompt and the answer so
    far.
    """
    known = PASSED_ON | _SPENT | _TOOLS
    if not all(name in known or _has_no_effect(name, value) for name, value in fields.items()):
        return False
    return not _may_call(fields) and _is_all_text(fields.get("messages"))


def is_possible_by_text(fields: Fields) -> bool:
    """Return whether another worker can continue the answer from its text so far. Such a continuation is not exact."""
    return not _may_call(fields) and all(
        _has_no_effect(name, value) for name, value in fields.items() if name in _NEVER
    )


def _has_no_effect(name: str, value: Raw) -> bool:
    """Return whether the field *name* with this *value* has the same effect as if it were missing."""
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
    """Return whether the answer can call a tool. In vLLM, tools without a `tool_choice` mean `auto`."""
    tools = fields.get("tools")
    if tools is None or _has_no_effect("tools", tools):
        return False
    return bytes(fields.get("tool_choice", Raw(b"null"))) != b'"none"'


def _is_all_text(messages: Raw | None) -> bool:
    """Return whether *messages* contain nothing but text. The token ids of an image are only placeholders."""
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
