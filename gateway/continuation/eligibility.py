"""Which requests can be gone on with in the middle, judged by the fields of their bodies.

By token ids nothing may depend on where the answer began but what is taken along: what counts or matches in the output
alone (presence and frequency penalties, stop strings, words forbidden, a grammar) would begin anew. A field that is not
known here may be of that kind, so it is not gone on with either, unless it says nothing.
"""

from collections.abc import Mapping

import msgspec
from msgspec import Raw

Fields = Mapping[str, Raw]
"""The members of a body, undecoded."""

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
"""What goes along as it is; `min_tokens` is lowered."""

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
"""What made the prompt, which is taken along as ids, or makes no difference to the tokens."""

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
"""What a text that was cut off cannot be gone on with under: an answer of its own shape, or a rule for all of it."""


def is_exact_by_tokens(fields: Fields) -> bool:
    """Whether another worker that gets the ids of the prompt and of the answer so far would go on as this one."""
    known = PASSED_ON | _SPENT | _TOOLS
    if not all(name in known or _says_nothing(name, value) for name, value in fields.items()):
        return False
    return not _may_call(fields) and _is_all_text(fields.get("messages"))


def is_possible_by_text(fields: Fields) -> bool:
    """Whether the text so far can be put before another worker to be gone on with, as well as it may."""
    return not _may_call(fields) and all(_says_nothing(name, value) for name, value in fields.items() if name in _NEVER)


def _says_nothing(name: str, value: Raw) -> bool:
    """Whether the field could as well be absent."""
    text = bytes(value)
    try:
        return _is_neutral(name, text)
    except msgspec.DecodeError:  # a number beyond all floats, a type that is a number
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
    """Whether the answer may be a call of a tool: as vLLM reads it, tools without a choice mean ``auto``."""
    tools = fields.get("tools")
    if tools is None or _says_nothing("tools", tools):
        return False
    return bytes(fields.get("tool_choice", Raw(b"null"))) != b'"none"'


def _is_all_text(messages: Raw | None) -> bool:
    """Whether nothing in *messages* is an image or another thing that token ids only hold the place of."""
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
