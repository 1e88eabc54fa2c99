"""Features of a prompt that engines tokenize in different ways."""

from typing import Literal

from gateway.models.tokenizing.asked import Asked, AskedChat, AskedIds, AskedTexts, JsonObject

Feature = Literal["text", "chat", "parts", "developer", "tools", "tool_calls", "reasoning", "effort"]
"""Feature of a prompt. Features are metric labels, so there are only a few.

* ``text``: plain text, with the begin and end tokens of the tokenizer
* ``chat``: a conversation, rendered with the chat template; all features below are parts of a chat
* ``parts``: content that is a list of texts
* ``developer``: a message with the role developer
* ``tools``: tools that the model may call
* ``tool_calls``: tool calls, and their results
* ``reasoning``: reasoning of earlier turns
* ``effort``: a requested reasoning effort
"""


def features_of(asked: Asked) -> set[Feature]:
    """Return the features of the prompt *asked*. O(messages)."""
    match asked:
        case AskedIds():
            return set()
        case AskedTexts():
            return {"text"}
        case _:
            return _of_chat(asked)


def _of_chat(chat: AskedChat) -> set[Feature]:
    features: set[Feature] = {"chat"}
    if chat.tools:
        features.add("tools")
    if chat.reasoning_effort is not None:
        features.add("effort")
    for message in chat.messages:
        _add(features, message)
    return features


def _add(features: set[Feature], message: JsonObject) -> None:
    if message.get("role") == "developer":
        features.add("developer")
    if isinstance(message.get("content"), list):
        features.add("parts")
    if message.get("role") == "tool" or message.get("tool_calls"):
        features.add("tool_calls")
    if message.get("reasoning") is not None or message.get("reasoning_content") is not None:
        features.add("reasoning")
