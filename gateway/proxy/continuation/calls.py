"""Build the requests that ask another worker to continue an answer.

vLLM accepts a prompt of token ids in two ways that need no extra option. The endpoint ``/v1/completions`` takes a list
of token ids as its prompt, but always has a token limit. If ``max_tokens`` is missing or null, vLLM 0.32 generates 16
tokens. The chat endpoint takes ``kv_transfer_params.prompt_token_ids`` in place of the rendered messages (vLLM 0.32 or
earlier), and uses its own default limit. An engine that does not know this field answers the messages instead, so the
gateway checks which prompt the engine reports.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from gateway.backends.backend import Call
from gateway.protocol.splice import Places, spliced
from gateway.proxy.continuation.eligibility import PASSED_ON, Fields

CHAT_PATH = "/v1/chat/completions"
TEXT_PATH = "/v1/completions"
DEFAULT_TOKENS = 16
"""Default token limit of text completions, in OpenAI's API and in the engines."""

_PARSING = frozenset({"chat_template_kwargs", "reasoning_effort", "include_reasoning"})
"""Request fields that affect not only the rendering of a chat prompt, but also the parsing of the answer."""
KEPT = PASSED_ON | _PARSING
"""Request fields that the function `by_tokens` needs."""
_NO_MESSAGES = Raw(b'[{"role":"user","content":"."}]')


def with_ids(call: Call, places: Places | None = None) -> Call:
    """Return *call*, changed so that it asks for token ids. *places* are the positions of its fields, if known."""
    return _with_body(call, spliced(call.body, {"return_token_ids": b"true"}, places))


def by_tokens(call: Call, fields: Fields, prompt: Iterable[int], *, most: int | None, least: int) -> Call:
    """Return the call that continues an answer after the token ids *prompt*. The call asks for at least *least* tokens
    and at most *most*, or as many as fit if *most* is None.
    """
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
    """Return the call that continues an answer after *text*, or None if text cannot continue it. The text becomes the
    last message of a chat, or the end of the prompt.
    """
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
    """Return the chat messages with *text* as an additional message. If the request continues its last message, *text*
    is appended to that message.
    """
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
