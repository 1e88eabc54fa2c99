"""Exact tokens from an engine's ``/tokenize`` endpoint, for requests that the endpoint represents completely.

The chat form of the endpoint (`vllm/entrypoints/serve/tokenize/protocol.py`) lacks ``reasoning_effort``, ``documents``
and ``tool_choice``, and its answer does not locate images. Requests with one of these get no exact tokens from it.
"""

import msgspec

from cache_index.tokens import pack
from gateway.models.tokenizing.asked import Asked, AskedChat, AskedIds, AskedTexts, JsonObject
from gateway.models.tokenizing.bodies import asked_of
from gateway.models.tokenizing.conversation import TemplateForm, conversation_of
from gateway.models.tokenizing.engine_question import EngineQuestion
from gateway.models.tokenizing.exactness import Exact, NotExact, Unknowable
from gateway.models.tokenizing.given_ids import given
from gateway.models.tokenizing.token_source import RawPrompt

_ANY_FORM = TemplateForm(content="openai", knows_developer=True)


class EngineTokenize:
    """Token source that sends the conversation, or a single text, to an engine's ``/tokenize`` endpoint."""

    def __init__(self, question: EngineQuestion) -> None:
        self._question = question

    async def ids(self, prompt: RawPrompt) -> Exact | NotExact:
        """Return the exact tokens of *prompt*. The cost is one round trip and O(bytes)."""
        try:
            asked = asked_of(prompt.path, prompt.body)
            if isinstance(asked, AskedIds):
                return given(asked)
            body = msgspec.json.encode({"model": prompt.model, **_question(asked)})
            return _exact(await self._question.ask("/tokenize", body))
        except Unknowable as unknowable:
            return NotExact(unknowable.reason)


def _question(asked: Asked) -> JsonObject:
    match asked:
        case AskedTexts(prompts=[text]):
            return {"prompt": text, "add_special_tokens": asked.add_special_tokens}
        case AskedChat():
            return _chat(asked)
    raise Unknowable("unsupported")  # it takes one text at a time


def _chat(chat: AskedChat) -> JsonObject:
    if chat.reasoning_effort is not None or chat.documents is not None or (chat.tools and chat.tool_choice_none):
        raise Unknowable("unsupported")
    if conversation_of(chat.messages, _ANY_FORM).has_media:
        raise Unknowable("unsupported")
    question: JsonObject = {
        "messages": chat.messages,
        "add_generation_prompt": chat.add_generation_prompt,
        "continue_final_message": chat.continue_final_message,
        "add_special_tokens": chat.add_special_tokens,
    }
    if chat.tools:
        question["tools"] = chat.tools
    if chat.template_kwargs:
        question["chat_template_kwargs"] = chat.template_kwargs
    return question


class _Tokens(msgspec.Struct, gc=False):
    tokens: list[int]


_decode = msgspec.json.Decoder(_Tokens).decode


def _exact(answer: bytes) -> Exact:
    try:
        ids = _decode(answer).tokens
        return Exact(pack(ids), len(ids))
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError):
        raise Unknowable("engine") from None
