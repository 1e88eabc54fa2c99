"""Conversion of prompts and answers to ``gen_ai.input.messages`` and ``gen_ai.output.messages``, with a size limit.

A message consists of its role and parts. Text and tool calls are kept. Images and audio are replaced by their type. If
the messages exceed the limit, the last ones are kept because they matter most for a request.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from gateway.protocol.errors import DECODE_ERRORS

Message = dict[str, Any]
Part = dict[str, Any]

_TEXTS = frozenset({"text", "input_text", "output_text"})
_CUT = "… [cut]"


def input_messages(raw: bytes, most_bytes: int) -> str | None:
    """Return the messages in the request body *raw* as JSON with at most about *most_bytes* of text, or None.

    O(bytes), because the whole body is decoded.
    """
    body = _object(raw)
    return _as_json([*_instructions(body), *_asked(body)], most_bytes)


def output_messages(answer: bytes, most_bytes: int) -> str | None:
    """Return the messages of the response as JSON. *answer* is the JSON or the stream that was sent, which can be
    incomplete.
    """
    if answer.lstrip().startswith(b"{"):
        return _as_json(_whole(_object(answer)), most_bytes)
    return _as_json(_streamed(_events(answer)), most_bytes)


# ---- what was asked


def _instructions(body: dict[str, Any]) -> Iterator[Message]:
    """Yield the system messages of Anthropic's Messages API and OpenAI's Responses API, which are separate request
    fields.
    """
    for name in ("system", "instructions"):
        if body.get(name):
            yield {"role": "system", "parts": _parts(body[name])}


def _asked(body: dict[str, Any]) -> Iterator[Message]:
    for name in ("messages", "input", "prompt"):
        said = body.get(name)
        if isinstance(said, str):
            yield _message("user", said)
        elif isinstance(said, list):
            yield from (_one_asked(each) for each in said)


def _one_asked(said: Any) -> Message:
    if not isinstance(said, dict):
        return _message("user", said if isinstance(said, str) else "")
    parts = _parts(said.get("content"))
    role = str(said.get("role") or "user")
    if role == "tool" or said.get("type") == "function_call_output":
        answer = said.get("output") if "output" in said else "".join(part.get("content", "") for part in parts)
        parts = [
            {"type": "tool_call_response", "id": said.get("tool_call_id") or said.get("call_id"), "response": answer}
        ]
        role = "tool"
    return {"role": role, "parts": [*parts, *_calls(said.get("tool_calls"))]}


def _parts(content: Any) -> list[Part]:
    if isinstance(content, str):
        return [{"type": "text", "content": content}] if content else []
    if not isinstance(content, list):
        return []
    return [_part(each) for each in content if isinstance(each, dict)]


def _part(said: dict[str, Any]) -> Part:
    kind = str(said.get("type"))
    if kind in _TEXTS:
        return {"type": "text", "content": str(said.get("text", ""))}
    if kind == "tool_use":
        return {"type": "tool_call", "id": said.get("id"), "name": said.get("name"), "arguments": said.get("input")}
    if kind == "tool_result":
        return {"type": "tool_call_response", "id": said.get("tool_use_id"), "response": said.get("content")}
    return {"type": kind}  # of a picture nothing but that it was there


def _calls(calls: Any) -> list[Part]:
    if not isinstance(calls, list):
        return []
    functions = [(each.get("id"), each.get("function") or {}) for each in calls if isinstance(each, dict)]
    return [
        {"type": "tool_call", "id": call_id, "name": function.get("name"), "arguments": function.get("arguments")}
        for call_id, function in functions
        if isinstance(function, dict)
    ]


# ---- what was answered


def _whole(body: dict[str, Any]) -> Iterator[Message]:
    for choice in _dicts(body.get("choices")):
        message = choice.get("message")
        said = message if isinstance(message, dict) else {"content": choice.get("text")}
        yield _answered([*_parts(said.get("content")), *_calls(said.get("tool_calls"))], choice.get("finish_reason"))
    for item in _dicts(body.get("output")):  # of a response
        yield _answered(_parts(item.get("content")), item.get("status"))
    if body.get("type") == "message":  # of Anthropic's
        yield _answered(_parts(body.get("content")), body.get("stop_reason"))


def _streamed(events: Iterable[dict[str, Any]]) -> Iterator[Message]:
    """Yield the messages of a stream, one per choice, with joined text. Of tool calls, only the names are kept."""
    texts: dict[int, list[str]] = {}
    calls: dict[int, list[Part]] = {}
    finished: dict[int, Any] = {}
    for event in events:
        for choice in _dicts(event.get("choices")):
            number = choice.get("index") or 0
            delta: dict[str, Any] = choice["delta"] if isinstance(choice.get("delta"), dict) else choice
            texts.setdefault(number, []).append(_text(delta.get("content")) or _text(delta.get("text")))
            calls.setdefault(number, []).extend(part for part in _calls(delta.get("tool_calls")) if part["name"])
            finished[number] = choice.get("finish_reason") or finished.get(number)
        if event.get("type") == "response.output_text.delta":
            texts.setdefault(0, []).append(_text(event.get("delta")))
        elif event.get("type") == "content_block_delta" and isinstance(event.get("delta"), dict):
            texts.setdefault(0, []).append(_text(event["delta"].get("text")))
    for number, pieces in sorted(texts.items()):
        yield _answered([*_parts("".join(pieces)), *calls.get(number, [])], finished.get(number))


def _answered(parts: list[Part], finish_reason: Any) -> Message:
    return {"role": "assistant", "parts": parts, "finish_reason": finish_reason or ""}


def _events(stream: bytes) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in the events of a stream. Malformed events, such as a truncated last one, are skipped."""
    for line in stream.splitlines():
        if line.startswith(b"data:") and b"{" in line:
            event = _object(line.removeprefix(b"data:"))
            if event:
                yield event


# ---- within the limit


def _as_json(messages: Iterable[Message], most_bytes: int) -> str | None:
    kept: list[Message] = []
    left = most_bytes
    for message in reversed(list(messages)):
        parts, left = _within(message["parts"], left)
        if message["parts"] and not parts:
            break
        kept.append({**message, "parts": parts})
    return msgspec.json.encode(kept[::-1]).decode() if kept else None


def _within(parts: list[Part], left: int) -> tuple[list[Part], int]:
    """Return as many of *parts* as fit into *left* bytes, and the number of bytes that remain."""
    kept: list[Part] = []
    for part in parts:
        size = len(msgspec.json.encode(part))
        if size > left:
            if part.get("type") == "text" and left > len(_CUT):
                text = part["content"].encode()[:left].decode(errors="ignore")
                kept.append({"type": "text", "content": text + _CUT})
            return kept, 0
        kept.append(part)
        left -= size
    return kept, left


def _message(role: str, text: str) -> Message:
    return {"role": role, "parts": _parts(text)}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _object(raw: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(raw)
    except DECODE_ERRORS:
        return {}
    return value if isinstance(value, dict) else {}
