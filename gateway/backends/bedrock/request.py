"""An OpenAI chat body, as the JSON of Converse.

Three fates of a field:

1. mapped, if Converse has its equal;
2. refused by name, if leaving it out would make the answer wrong without a sign (tools, images, a JSON schema ...);
3. dropped and listed, if leaving it out only makes the answer a little different (seeds, penalties, unknown fields).

Converse takes turns strictly: first the user, then by turns, last the user, and no text that is blank.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.backends.bedrock.json_object import read_object
from gateway.errors import InvalidField, MalformedBody

_PLACEHOLDER = "."
"""Stands where Converse wants text of a user and the caller gave none."""

_MAPPED = {
    "model",
    "messages",
    "max_completion_tokens",
    "max_tokens",
    "temperature",
    "top_p",
    "stop",
    "stream",
    "stream_options",
}


def _is_set(value: object) -> bool:
    return value is not None


def _is_truthy(value: object) -> bool:
    return bool(value)


def _is_many(value: object) -> bool:
    return value not in (None, 1)


def _is_forced(value: object) -> bool:
    return value not in (None, "none", "auto")


def _is_structured(value: object) -> bool:
    return value is not None and not (isinstance(value, dict) and value.get("type") == "text")


def _is_beyond_text(value: object) -> bool:
    return value not in (None, [], ["text"])


# Field -> whether its value asks for what cannot be served. Those of the third group are vLLM's own.
_REFUSED: dict[str, Callable[[object], bool]] = {
    "tools": _is_truthy,
    "tool_choice": _is_forced,
    "functions": _is_truthy,
    "function_call": _is_forced,
    "response_format": _is_structured,
    "modalities": _is_beyond_text,
    "audio": _is_set,
    "web_search_options": _is_set,
    "n": _is_many,
    "logprobs": _is_truthy,
    "top_logprobs": _is_truthy,
    "logit_bias": _is_truthy,
    "best_of": _is_many,
    "use_beam_search": _is_truthy,
    "prompt_logprobs": _is_set,
    "structured_outputs": _is_set,
    "structural_tag": _is_set,
    "guided_json": _is_set,
    "guided_regex": _is_set,
    "guided_choice": _is_set,
    "guided_grammar": _is_set,
    "allowed_token_ids": _is_truthy,
    "bad_words": _is_truthy,
    "logits_processors": _is_truthy,
    "echo": _is_truthy,
    "continue_final_message": _is_truthy,
    "chat_template": _is_set,
    "documents": _is_truthy,
    "return_token_ids": _is_truthy,
}
_MAPPED_OF_MESSAGE = {"role", "content", "refusal", "tool_calls", "function_call", "audio"}


@dataclass(frozen=True, slots=True)
class ConverseRequest:
    """What goes to Bedrock, and what of the caller's body did not."""

    payload: dict[str, Any]
    dropped: tuple[str, ...]
    """Names of fields that carry no weight in the answer, sorted; ``messages.name`` is the field of a message."""
    wants_usage: bool
    """``stream_options.include_usage``"""


def to_converse(body: bytes, *, default_max_tokens: int, max_tokens_limit: int | None = None) -> ConverseRequest:
    """The Converse request for *body*. O(body).

    ``maxTokens`` is always sent: without it Bedrock reserves the model's maximum against the account's quota. A caller
    who asks for more than *max_tokens_limit* (the model's own cap) gets that.

    Raises:
        MalformedBody: *body* is not a JSON object.
        InvalidField: a field has no equal in Converse, or a value that no model takes.
    """
    try:
        fields = read_object(body)
    except ValueError as error:
        raise MalformedBody(f"the body is {error}") from error
    for name, is_asked_for in _REFUSED.items():
        if is_asked_for(fields.get(name)):
            raise InvalidField(f"'{name}' cannot be served by the Bedrock fallback", param=name)
    messages = _messages(fields)
    system, turns = _conversation(messages)
    max_tokens = _max_tokens(fields) or default_max_tokens
    payload: dict[str, Any] = {
        "messages": turns,
        "inferenceConfig": {"maxTokens": min(max_tokens, max_tokens_limit or max_tokens)} | _sampling(fields),
    }
    if system:
        payload["system"] = [{"text": text} for text in system]
    options = fields.get("stream_options")
    return ConverseRequest(
        payload=payload,
        dropped=tuple(sorted(_dropped(fields, messages))),
        wants_usage=isinstance(options, dict) and options.get("include_usage") is True,
    )


def _messages(fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise InvalidField("'messages' must be a non-empty array", param="messages")
    for at, message in enumerate(messages):
        if not isinstance(message, dict):
            raise InvalidField(f"'messages[{at}]' must be an object", param=f"messages[{at}]")
    return messages


def _conversation(messages: list[dict[str, Any]]) -> tuple[list[str], list[dict[str, Any]]]:
    """The system texts at the head, and the turns after them.

    A system message further down becomes the user's text at its place: moved to the head it would mean something else.
    """
    system: list[str] = []
    turns: list[dict[str, Any]] = []
    for at, message in enumerate(messages):
        role = message.get("role")
        texts = [text for text in _texts(message, at) if text.strip()]
        if role in ("system", "developer") and not turns:
            system += texts
        elif role in ("system", "developer", "user"):
            _say(turns, "user", texts or ([_PLACEHOLDER] if role == "user" else []))
        else:
            _say(turns, "assistant", texts)
    if turns and turns[-1]["role"] == "assistant":
        # Of Bedrock's models few continue an assistant's text, the others refuse it or begin afresh.
        raise InvalidField(
            "'messages' that end with the assistant cannot be served by the Bedrock fallback", param="messages"
        )
    if not turns or turns[0]["role"] == "assistant":
        turns.insert(0, {"role": "user", "content": [{"text": _PLACEHOLDER}]})
    return system, turns


def _say(turns: list[dict[str, Any]], role: str, texts: list[str]) -> None:
    """Append to the last turn if it is the same role's, else begin one; no texts, no turn."""
    blocks = [{"text": text} for text in texts]
    if turns and turns[-1]["role"] == role:
        turns[-1]["content"] += blocks
    elif blocks:
        turns.append({"role": role, "content": blocks})


def _texts(message: Mapping[str, Any], at: int) -> list[str]:
    """The texts of message number *at*.

    Raises:
        InvalidField: the role is unknown, or there is anything but text in it.
    """
    where, role = f"messages[{at}]", message.get("role")
    if role in ("tool", "function"):
        raise InvalidField(f"'{where}': tool results cannot be served by the Bedrock fallback", param=f"{where}.role")
    if role not in ("system", "developer", "user", "assistant"):
        raise InvalidField(f"'{where}.role' must be system, developer, user or assistant", param=f"{where}.role")
    for name in ("tool_calls", "function_call", "audio"):
        if message.get(name):
            raise InvalidField(f"'{where}.{name}' cannot be served by the Bedrock fallback", param=f"{where}.{name}")
    content, refusal = message.get("content"), message.get("refusal")
    said = [refusal] if isinstance(refusal, str) else []
    match content:
        case str():
            return [content, *said]
        case list():
            return [_text(part, f"{where}.content[{index}]") for index, part in enumerate(content)] + said
        case None if role == "assistant":
            return said
    raise InvalidField(f"'{where}.content' must be a string or an array of parts", param=f"{where}.content")


def _text(part: object, where: str) -> str:
    match part:
        case str(text) | {"type": "text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
            return text
        case {"type": str(kind)} if kind not in ("text", "refusal"):
            raise InvalidField(f"'{where}' is not text: the Bedrock fallback serves text only", param=where)
    raise InvalidField(f"'{where}' must be a text part", param=where)


def _max_tokens(fields: Mapping[str, Any]) -> int | None:
    for name in ("max_completion_tokens", "max_tokens"):
        value = fields.get(name)
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InvalidField(f"'{name}' must be an integer of at least 1", param=name)
        return value
    return None


def _sampling(fields: Mapping[str, Any]) -> dict[str, Any]:
    sampling: dict[str, Any] = {}
    temperature = _number(fields, "temperature")
    if temperature is not None:
        sampling["temperature"] = min(temperature, 1.0)  # OpenAI's goes to 2, Converse's to 1
    top_p = _number(fields, "top_p")
    if top_p is not None:
        if top_p > 1:
            raise InvalidField("'top_p' must not be greater than 1", param="top_p")
        sampling["topP"] = top_p
    stops = _stops(fields.get("stop"))
    if stops:
        sampling["stopSequences"] = stops
    return sampling


def _number(fields: Mapping[str, Any], name: str) -> float | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
        raise InvalidField(f"'{name}' must be a number of at least 0", param=name)
    return value


def _stops(value: object) -> list[str]:
    stops = [value] if isinstance(value, str) else value or []
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        raise InvalidField("'stop' must be a string or an array of strings", param="stop")
    return [stop for stop in stops if stop]


def _dropped(fields: Mapping[str, Any], messages: list[dict[str, Any]]) -> set[str]:
    known = _MAPPED | _REFUSED.keys()
    of_body = {name for name, value in fields.items() if value is not None and name not in known}
    of_messages = {
        f"messages.{name}"
        for message in messages
        for name, value in message.items()
        if value is not None and name not in _MAPPED_OF_MESSAGE
    }
    return of_body | of_messages
