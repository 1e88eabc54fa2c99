"""Recognition of tool loops.

A tool loop is a sequence of requests in which a model calls tools and the caller sends back their results. All requests
of a loop have the same conversation up to the user message that began the loop, so its digest identifies the loop
without the names of sessions and without any memory. Results follow this message, and so do user messages that come
right after results, which agents add as reminders.
"""

import re
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final, NamedTuple

_messages = re.compile(rb"\xff([^\xf8-\xff]*)").finditer
"""Messages of a rendered prompt, with their roles; see `gateway.protocol.prompt`."""
_HEAD: Final = b"\xf8"
_TOOLS: Final = (b'"tools":', b'"functions":')
_RESULT_ROLES: Final = frozenset({b"tool", b"function"})
_RESULT: Final = "tool_result"
_OUTPUT: Final = "_output"
"""Ending of the types of results in the Responses API."""


class ToolLoop(NamedTuple):
    """Tool loop to which a request belongs, or which its answer can begin."""

    beginning: int
    """Length in bytes of the prompt up to the message that began the loop, including it."""
    digest: bytes
    """Digest of the conversation up to this message, without the tools, which can change during a loop."""
    has_results: bool
    """Whether the request contains results of tools, so that it continues the loop."""


def tool_loop(prompt: bytes) -> ToolLoop | None:
    """Return the tool loop of a request with the rendered *prompt*. Return None if the request has neither tools nor
    results of tools, or no user message. O(bytes).
    """
    first = prompt.find(b"\xff")
    has_results = is_after_result = is_begun = False
    beginning = 0
    for message in _messages(prompt):
        role = message[1]
        if is_begun:
            beginning, is_begun = message.start(), False
        if role in _RESULT_ROLES or role.endswith(_OUTPUT.encode()):
            has_results = is_after_result = True
        elif role == b"user" and not is_after_result:
            is_begun, has_results = True, False
        elif role == b"assistant":
            is_after_result = False
    if is_begun:
        beginning = len(prompt)
    if not beginning or not (has_results or _has_tools(prompt, first)):
        return None
    return ToolLoop(beginning, blake2b(prompt[first:beginning], digest_size=16).digest(), has_results)


def messages_before_results(items: list[Any]) -> list[Any]:
    """Return the messages or input items of a JSON body up to the user message that began its tool loop, including it.

    Without a tool loop, return all items.
    """
    beginning, is_after_result, has_results = len(items), False, False
    for place, item in enumerate(items):
        if not isinstance(item, dict):
            continue
        if _is_result(item):
            is_after_result = has_results = True
        elif item.get("role") == "user" and not is_after_result:
            beginning, has_results = place + 1, False
        elif item.get("role") == "assistant" or str(item.get("type")).endswith("_call"):
            is_after_result = False
    return items[:beginning] if has_results else items


def _has_tools(prompt: bytes, end: int) -> bool:
    head = prompt[:end]
    return head.startswith(_HEAD) and any(name in head for name in _TOOLS)


def _is_result(item: dict[str, Any]) -> bool:
    if str(item.get("role")).encode() in _RESULT_ROLES or str(item.get("type")).endswith(_OUTPUT):
        return True
    return any(part.get("type") == _RESULT for part in _parts(item))


def _parts(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    content = item.get("content")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, dict):
            yield part
