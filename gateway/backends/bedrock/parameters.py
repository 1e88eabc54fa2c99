"""The fields of a chat body, and how each is treated.

    MAPPED      Converse, or the model's own fields, have its equal
    EMULATED    the gateway sees to it
    DROPPED     left out and named to the caller: the answer is only a little different without it
    REFUSED     left out, the answer would be wrong without a sign: this fallback cannot help

A field that is in no row is DROPPED. A value that asks for nothing special is no matter in any of them.
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
    """Whether a value requests something."""


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
"""Names under which `left_out` has the reasoning of the history."""
_SWITCHES = {"enable_thinking", "thinking"}
"""Fields of ``chat_template_kwargs`` that reasoning_effort.py reads."""

_MOST_STOPS = 4  # OpenAI's limit, and the lowest of Bedrock's models (Nova)
_MOST_TOP_K = {"top_k": 500, "topK": 128}  # Claude's and Nova's, in AWS's pages on their own parameters

# RequestMetadata in botocore's service model.
_STRANGE = re.compile(r"[^a-zA-Z0-9\s:_@$#=/+,.-]")
_LONGEST_METADATA = 256
_MOST_METADATA = 16


@dataclass(frozen=True, slots=True)
class Sampling:
    """Choice of the next token, and the end of the text."""

    inference: dict[str, Any] = field(default_factory=dict)
    """Fields of Converse's ``inferenceConfig``."""
    own: dict[str, Any] = field(default_factory=dict)
    """Fields of the model's own."""
    stops: tuple[str, ...] = ()
    """Stop strings that the gateway must handle."""
    dropped: frozenset[str] = frozenset()


def refuse_unservable(fields: Mapping[str, Any]) -> None:
    """Accept *fields* unless one requires what no model on Bedrock supports.

    Raises:
        InvalidField: one does, and the answer would not show that it was left out.
    """
    for name, value in fields.items():
        parameter = PARAMETERS.get(name)
        if parameter and parameter.fate is Fate.REFUSED and parameter.asks(value):
            raise InvalidField(f"'{name}' cannot be served by the Bedrock fallback", param=name)


def left_out(fields: Mapping[str, Any]) -> set[str]:
    """Names of unsupported fields; fields of messages as ``messages.name``."""
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
    """The most tokens of output that the caller wants.

    Raises:
        InvalidField: that is no number of tokens.
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
    """Return the sampling in the *fields* of a chat body, as *family* accepts it. *thinks*: Claude was asked to think.

    Raises:
        InvalidField: no model accepts a value.
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
    """Return the *stops* that a model of *family* accepts."""
    return [stop for stop in stops if family.takes_stops and (stop.strip() or family.takes_blank_stops)][:_MOST_STOPS]


def request_metadata(fields: Mapping[str, Any]) -> dict[str, str]:
    """Converse's ``requestMetadata``, which stands in the account's invocation logs.

    Who the caller's user is goes there only as a digest: it may be an address of a person.
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
    """Converse's word for the caller's tier, None for the ordinary one; and whether there is a word for it."""
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
        raise InvalidField(f"'{name}' must not be greater than {most}", param=name)
    return value


def _top_k(fields: Mapping[str, Any]) -> int | None:
    """Return the value; None also for vLLM's 0 and -1, which mean all."""
    value = fields.get("top_k")
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidField("'top_k' must be an integer", param="top_k")
    return value if value > 0 else None


def read_stops(value: object) -> list[str]:
    """The stop texts that the field ``stop`` has, without empty ones and repetitions.

    Raises:
        InvalidField: it is neither a string nor strings.
    """
    stops = [value] if isinstance(value, str) else value or []
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        raise InvalidField("'stop' must be a string or an array of strings", param="stop")
    return list(dict.fromkeys(stop for stop in stops if stop))


def _plain(text: str) -> str:
    return _STRANGE.sub("_", text)[:_LONGEST_METADATA].strip()
