"""The calls by which another worker goes on with an answer.

By ids there are two ways into vLLM that need no extra switch. ``/v1/completions`` takes a list of ids as its prompt,
but knows no "as many tokens as fit": without ``max_tokens`` it is 16 (0.32, null included). The chat route takes
``kv_transfer_params.prompt_token_ids`` in place of the rendered messages (0.32 at the latest), and its own limit
applies. An engine that does not know that field answers the messages, so whoever asks checks which prompt it tells.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from gateway.backends.backend import Call
from gateway.continuation.eligibility import PASSED_ON, Fields
from gateway.splice import Places, spliced

CHAT_PATH = "/v1/chat/completions"
TEXT_PATH = "/v1/completions"
DEFAULT_TOKENS = 16
"""Of a text completion that names no limit, with OpenAI and so with the engines."""

_PARSING = frozenset({"chat_template_kwargs", "reasoning_effort", "include_reasoning"})
"""What a chat's answer is read by, beside being rendered by it."""
KEPT = PASSED_ON | _PARSING
"""The fields that `by_tokens` wants."""
_NO_MESSAGES = Raw(b'[{"role":"user","content":"."}]')


def telling_ids(call: Call, places: Places | None = None) -> Call:
    """*call* as one whose answer tells token ids; *places* are those of the fields of its body, if they are known."""
    return _with_body(call, spliced(call.body, {"return_token_ids": b"true"}, places))


def by_tokens(call: Call, fields: Fields, prompt: Iterable[int], *, most: int | None, least: int) -> Call:
    """Go on behind the ids of *prompt*: *most* tokens, or as many as fit, and at least *least*."""
    ids = list(prompt)
    said: dict[str, Any] = {name: value for name, value in fields.items() if name in PASSED_ON}
    said |= {"return_token_ids": True} | _at_least(fields, least)
    if most is not None:
        body = msgspec.json.encode(said | {"prompt": ids, "max_tokens": most})
        path = call.path.replace(CHAT_PATH.encode(), TEXT_PATH.encode(), 1)
        return call.changed(path=path, body=body)
    said |= {name: value for name, value in fields.items() if name in _PARSING}
    said |= {"messages": _NO_MESSAGES, "kv_transfer_params": {"prompt_token_ids": ids}}
    return _with_body(call, msgspec.json.encode(said))


def by_text(call: Call, fields: Fields, text: str, *, most: int | None, least: int) -> Call | None:
    """Go on behind *text*, as the last message or the end of the prompt; None where it cannot be put there."""
    changes: dict[str, Any] = _at_least(fields, least)
    if most is not None:
        changes |= {name: most for name in ("max_tokens", "max_completion_tokens") if name in fields}
        changes = changes or {"max_tokens": most}
    if "messages" in fields:
        messages = _longer_chat(fields, text)
        if messages is None:
            return None
        changes |= {"messages": messages, "continue_final_message": True, "add_generation_prompt": False}
    else:
        prompt = msgspec.json.decode(fields["prompt"])
        if isinstance(prompt, list) and len(prompt) == 1:
            prompt = prompt[0]
        if not isinstance(prompt, str):
            return None
        changes["prompt"] = prompt + text
    encoded = {name: msgspec.json.encode(value) for name, value in changes.items()}
    return _with_body(call, spliced(call.body, encoded))


def _at_least(fields: Fields, least: int) -> dict[str, Any]:
    return {"min_tokens": least} if "min_tokens" in fields else {}


def _longer_chat(fields: Fields, text: str) -> list[Any] | None:
    """The messages with *text* at their end: as one more, or behind the last where the caller had one gone on with."""
    messages: list[Any] = msgspec.json.decode(fields["messages"], type=list[Raw])
    if bytes(fields.get("continue_final_message", Raw(b"false"))) != b"true":
        return [*messages, {"role": "assistant", "content": text}]
    last: Mapping[str, Any] = msgspec.json.decode(messages[-1])
    content = last.get("content")
    if not isinstance(content, str):
        return None
    return [*messages[:-1], {**last, "content": content + text}]


def _with_body(call: Call, body: bytes) -> Call:
    return call.changed(body=body)
