"""Fields of a chat request, and how the Bedrock backend handles each of them.

    MAPPED      Converse, or a model-specific field, has an equivalent
    EMULATED    the gateway implements the field itself
    DROPPED     the field is removed and reported to the client, because the answer changes only slightly without it
    REFUSED     the request is rejected, because without the field the answer would silently be wrong

An unknown field is DROPPED. A neutral value, such as a penalty of 0, has no effect in any of these cases.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from gateway.backends.bedrock.family import Family
from gateway.protocol.errors import InvalidField


class Fate(Enum):
    MAPPED = "mapped"
    EMULATED = "emulated"
    DROPPED = "dropped"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Parameter:
    fate: Fate
    asks: Callable[[object], bool]
    """Function that returns whether a value changes the request, unlike neutral values such as a penalty of 0."""


def _unless(*neutral: object) -> Callable[[object], bool]:
    return lambda value: value is not None and value not in neutral


def _row(fate: Fate, asks: Callable[[object], bool], *names: str) -> dict[str, Parameter]:
    return dict.fromkeys(names, Parameter(fate, asks))


_SET = _unless()
_FILLED = _unless(False, 0, "", [], {})

PARAMETERS: Mapping[str, Parameter] = {
    **_row(Fate.MAPPED, _SET, "model", "messages", "stream", "stream_options"),
    **_row(Fate.MAPPED, _SET, "max_completion_tokens", "max_tokens", "temperature", "top_p", "top_k", "stop"),
    **_row(Fate.MAPPED, _SET, "tools", "tool_choice", "functions", "function_call", "parallel_tool_calls"),
    **_row(Fate.MAPPED, _SET, "reasoning_effort", "user", "safety_identifier", "metadata", "service_tier"),
    **_row(Fate.EMULATED, _SET, "response_format", "guided_json", "structured_outputs"),
    **_row(Fate.DROPPED, _unless(0), "frequency_penalty", "presence_penalty", "min_p", "min_tokens"),
    **_row(Fate.DROPPED, _unless(1), "repetition_penalty", "length_penalty"),
    **_row(Fate.DROPPED, _SET, "seed", "prediction", "verbosity", "prompt_cache_key", "thinking_token_budget"),
    **_row(Fate.DROPPED, _FILLED, "store", "stop_token_ids", "ignore_eos", "cache_salt", "priority"),
    **_row(Fate.DROPPED, _unless(True), "skip_special_tokens", "spaces_between_special_tokens"),
    **_row(Fate.DROPPED, _unless(True), "add_special_tokens", "include_reasoning"),
    # Below are those that change what an answer is.
    **_row(Fate.REFUSED, _unless([], ["text"]), "modalities"),
    **_row(Fate.REFUSED, _SET, "audio", "web_search_options", "prompt_logprobs", "chat_template", "structural_tag"),
    **_row(Fate.REFUSED, _SET, "guided_regex", "guided_choice", "guided_grammar"),
    **_row(Fate.REFUSED, _unless(1), "n", "best_of"),
    **_row(Fate.REFUSED, _FILLED, "logprobs", "top_logprobs", "logit_bias", "use_beam_search", "allowed_token_ids"),
    **_row(Fate.REFUSED, _FILLED, "bad_words", "logits_processors", "echo", "continue_final_message", "documents"),
    **_row(Fate.REFUSED, _FILLED, "return_token_ids", "return_tokens_as_token_ids", "include_stop_str_in_output"),
    **_row(Fate.REFUSED, _unless(True), "add_generation_prompt"),
}

_OF_MESSAGES = {"role", "content", "refusal", "tool_calls", "function_call", "tool_call_id", "audio"}
REASONING = frozenset({"messages.reasoning_content", "messages.reasoning", "messages.thinking_blocks"})
"""Names that `left_out` uses for reasoning in earlier messages."""
_SWITCHES = {"enable_thinking", "thinking"}
"""Fields of ``chat_template_kwargs`` that reasoning_effort.py handles."""

_MOST_STOPS = 4  # OpenAI's limit, and the lowest of Bedrock's models (Nova)
_MOST_TOP_K = {"top_k": 500, "topK": 128}  # Claude's and Nova's, in AWS's pages on their own parameters

# RequestMetadata in botocore's service model.
_STRANGE = re.compile(r"[^a-zA-Z0-9\s:_@$#=/+,.-]")
_LONGEST_METADATA = 256
_MOST_METADATA = 16


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters and stop strings of one request."""

    inference: dict[str, Any] = field(default_factory=dict)
    """Fields for Converse's ``inferenceConfig``."""
    own: dict[str, Any] = field(default_factory=dict)
    """Model-specific request fields."""
    stops: tuple[str, ...] = ()
    """Stop strings that the gateway itself must apply."""
    dropped: frozenset[str] = frozenset()


def refuse_unservable(fields: Mapping[str, Any]) -> None:
    """Reject a request that uses a field that Bedrock models do not support and that cannot be dropped.

    Raises:
        InvalidField: if it uses one, because dropping it would silently change the answer.
    """
    for name, value in fields.items():
        parameter = PARAMETERS.get(name)
        if parameter and parameter.fate is Fate.REFUSED and parameter.asks(value):
            raise InvalidField(f"'{name}' is not supported by the Bedrock fallback", param=name)


def left_out(fields: Mapping[str, Any]) -> set[str]:
    """Return the names of the dropped request fields. Fields inside messages are listed as ``messages.name``."""
    found = {name for name, value in fields.items() if _is_dropped(name, value)}
    options = fields.get("chat_template_kwargs")
    if isinstance(options, dict) and options.keys() <= _SWITCHES:
        found.discard("chat_template_kwargs")
    for message in fields["messages"]:
        # The name of a tool is said with its call.
        known = _OF_MESSAGES | ({"name"} if message.get("role") in ("tool", "function") else set())
        found |= {f"messages.{name}" for name, value in message.items() if name not in known and _FILLED(value)}
    return found


def read_max_tokens(fields: Mapping[str, Any]) -> int | None:
    """Return the output token limit that the client set, or None.

    Raises:
        InvalidField: if the limit is not a positive integer.
    """
    for name in ("max_completion_tokens", "max_tokens"):
        value = fields.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InvalidField(f"'{name}' must be an integer of at least 1", param=name)
        return value
    return None


def read_sampling(fields: Mapping[str, Any], family: Family, *, thinks: bool) -> Sampling:
    """Return the sampling parameters of a chat request that *family* accepts. If *thinks* is true, sampling is
    disabled.

    Raises:
        InvalidField: if a value is outside the range that any model accepts.
    """
    temperature, top_p = _number(fields, "temperature"), _number(fields, "top_p", most=1)
    top_k = _top_k(fields)
    asked = {name for name, value in (("temperature", temperature), ("top_p", top_p)) if value is not None}
    asked |= {"top_k"} if top_k is not None else set()
    inference: dict[str, Any] = {}
    own: dict[str, Any] = {}
    if family.takes_sampling and not thinks:
        if temperature is not None:
            inference["temperature"] = min(temperature, 1)  # OpenAI's goes to 2, Converse's to 1
        if top_p is not None and (temperature is None or family.top_p_beside_temperature):
            inference["topP"] = top_p
        if top_k is not None and family.top_k is not None:
            most = min(top_k, _MOST_TOP_K[family.top_k])
            own = {"top_k": most} if family.top_k == "top_k" else {"inferenceConfig": {"topK": most}}
    sent = {name for name, wire in (("temperature", "temperature"), ("top_p", "topP")) if wire in inference}
    sent |= {"top_k"} if own else set()
    stops = read_stops(fields.get("stop"))
    sent_texts = sent_stops(stops, family)
    if sent_texts:
        inference["stopSequences"] = sent_texts
    return Sampling(inference, own, tuple(stop for stop in stops if stop not in sent_texts), frozenset(asked - sent))


def sent_stops(stops: list[str], family: Family) -> list[str]:
    """Return the stop strings in *stops* that a model of *family* accepts."""
    return [stop for stop in stops if family.takes_stops and (stop.strip() or family.takes_blank_stops)][:_MOST_STOPS]


def request_metadata(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return Converse's ``requestMetadata``, which AWS writes to the account's model invocation logs.

    The client's user id is sent only as a digest, because it may be personal data such as an e-mail address.
    """
    found: dict[str, str] = {}
    metadata = fields.get("metadata")
    if isinstance(metadata, dict):
        for name, value in metadata.items():
            key = _plain(name)
            if key and isinstance(value, str | int | float | bool):
                found.setdefault(key, _plain(str(value)))
    user = fields.get("safety_identifier") or fields.get("user")
    if isinstance(user, str) and user:
        found = {"user": hashlib.sha256(user.encode()).hexdigest()[:32], **found}
    return dict(list(found.items())[:_MOST_METADATA])


def service_tier(fields: Mapping[str, Any]) -> tuple[str | None, bool]:
    """Return Converse's name for the requested service tier (None for the default), and whether Converse supports the
    tier.
    """
    tier = fields.get("service_tier")
    if tier in ("priority", "flex"):
        return str(tier), True
    return None, tier in (None, "auto", "default")


def _is_dropped(name: str, value: object) -> bool:
    parameter = PARAMETERS.get(name)
    if parameter is None:
        return value is not None
    return parameter.fate is Fate.DROPPED and parameter.asks(value)


def _number(fields: Mapping[str, Any], name: str, *, most: float | None = None) -> float | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
        raise InvalidField(f"'{name}' must be a number of at least 0", param=name)
    if most is not None and value > most:
        raise InvalidField(f"'{name}' must be at most {most}", param=name)
    return value


def _top_k(fields: Mapping[str, Any]) -> int | None:
    """Return ``top_k``, or None if it is not set or has vLLM's value 0 or -1, which disables top-k sampling."""
    value = fields.get("top_k")
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidField("'top_k' must be an integer", param="top_k")
    return value if value > 0 else None


def read_stops(value: object) -> list[str]:
    """Return the stop strings in the request field ``stop``, without empty strings and duplicates.

    Raises:
        InvalidField: if the field is neither a string nor an array of strings.
    """
    stops = [value] if isinstance(value, str) else value or []
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        raise InvalidField("'stop' must be a string or an array of strings", param="stop")
    return list(dict.fromkeys(stop for stop in stops if stop))


def _plain(text: str) -> str:
    return _STRANGE.sub("_", text)[:_LONGEST_METADATA].strip()
