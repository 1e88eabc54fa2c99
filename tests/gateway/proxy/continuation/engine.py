"""A model of an engine: it gives one answer, token by token, in the events that vLLM writes.

It answers the prompt of the caller's messages, and goes on after any number of tokens of its answer. To all other
prompts it answers `NONSENSE`, so that an id too many or too few shows in the text.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.backends.backend import Call
from gateway.models.model import ContinuationMode
from gateway.protocol.body import parse_chat, parse_completion
from gateway.proxy.continuation.continuation import Continuation, continuation_of

CHAT_PATH = "/v1/chat/completions"
TEXT_PATH = "/v1/completions"
PROMPT = [7, 4_000_000_000, 9]
NONSENSE = [b"non", b"sense"]
END_OF_TEXT, END_OF_REASONING, FIRST_ID = 0, 2, 10
END_OF_REASONING_TEXT = b"</think>"
"""In completions, which know of no reasoning."""
DONE = b"data: [DONE]\n\n"

Json = dict[str, Any]


@dataclass
class Engine:
    """Answers with *tokens*; the first ones may be reasoning, which ends with a token of its own."""

    tokens: Sequence[bytes]
    reasoning: Sequence[bytes] = ()
    holds: str = ""
    """What its parser keeps back until it knows better: one character, at the end of a text."""
    has_ids: bool = True
    takes_ids_in_chats: bool = True
    details: bool = False
    lives: int = 0
    calls: list[Json] = field(default_factory=list)
    _vocabulary: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._answer = [*map(self._id, self.reasoning), *([END_OF_REASONING] if self.reasoning else [])]
        self._answer += [*map(self._id, self.tokens), END_OF_TEXT]
        self._nonsense = [*map(self._id, NONSENSE), END_OF_TEXT]

    def stream(self, call: Call) -> bytes:
        """Return all bytes of the answer to *call*."""
        return b"".join(self.events(call))

    def events(self, call: Call) -> list[bytes]:
        asked: Json = json.loads(call.body)
        self.calls.append(asked)
        self.lives += 1
        is_chat = call.path.endswith(b"/chat/completions")
        prompt = self._prompt(asked, is_chat=is_chat)
        came = prompt[len(PROMPT) :]
        known = prompt[: len(PROMPT)] == PROMPT and self._answer[: len(came)] == came
        ids = self._answer[len(came) :] if known else self._nonsense
        limit = asked.get("max_tokens") or asked.get("max_completion_tokens") or (None if is_chat else 16)
        shape = _Shape(asked, f"id-{self.lives}", 1000 + self.lives, is_chat, prompt, self)
        return list(shape.events(ids[:limit], opened=came))

    def text_of(self, token: int) -> bytes:
        return b"" if token < FIRST_ID else self._vocabulary[token - FIRST_ID]

    @property
    def ids(self) -> list[int]:
        return self._answer

    def _prompt(self, asked: Json, *, is_chat: bool) -> list[int]:
        if not is_chat:
            prompt = asked["prompt"]
            return prompt if isinstance(prompt, list) else [*PROMPT, *self._retold(prompt.removeprefix("Once"))]
        if self.takes_ids_in_chats and asked.get("kv_transfer_params"):
            return list(asked["kv_transfer_params"]["prompt_token_ids"])
        if asked["messages"] == [{"role": "user", "content": "."}]:
            return [1]
        text = asked["messages"][-1]["content"] if asked.get("continue_final_message") else ""
        return [*PROMPT, *self._retold(text)]

    def _retold(self, text: str) -> list[int]:
        """The first tokens of the answer that *text* is made of."""
        for count in range(len(self._answer)):
            if b"".join(map(self.text_of, self._answer[:count])) == text.encode():
                return self._answer[:count]
        return [1]

    def _id(self, token: bytes) -> int:
        if token not in self._vocabulary:
            self._vocabulary.append(token)
        return FIRST_ID + self._vocabulary.index(token)


@dataclass
class _Shape:
    """One answer as events."""

    asked: Json
    id: str
    created: int
    is_chat: bool
    prompt: list[int]
    engine: Engine

    def events(self, ids: Sequence[int], *, opened: Sequence[int]) -> Iterator[bytes]:
        engine, asks_ids = self.engine, bool(self.asked.get("return_token_ids")) and self.engine.has_ids
        parses = self.is_chat and bool(engine.holds or engine.reasoning)
        reasons = parses and bool(engine.reasoning) and END_OF_REASONING not in opened
        prompt_ids = self.prompt if asks_ids else None
        if self.is_chat:
            delta = {"role": "assistant", "content": ""}
            yield self._chunk(
                [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}], prompt_ids=prompt_ids
            )
        pending, held = b"", ""
        for number, token in enumerate(ids):
            pending += END_OF_REASONING_TEXT if token == END_OF_REASONING and not reasons else engine.text_of(token)
            text, pending = _decoded(pending)
            is_last = number == len(ids) - 1
            if parses and engine.holds:
                text, held = held + text, ""
                if text.endswith(engine.holds) and not is_last:
                    text, held = text[:-1], text[-1]
            reason = ("stop" if token == END_OF_TEXT else "length") if is_last else None
            said: Json = {"text": text} if not self.is_chat else {"delta": {"content": text}}
            if parses and not text:
                said = {"delta": {}}
            if reasons:
                said = {"delta": {"reasoning": text} if text else {}}
                reasons = token != END_OF_REASONING
            if said == {"delta": {}} and not asks_ids and reason is None:
                continue
            choice: Json = {"index": 0, **said, "logprobs": None, "finish_reason": reason}
            if reason is not None or not self.is_chat:
                choice["stop_reason"] = None
            if not self.is_chat:
                choice["prompt_token_ids"] = prompt_ids if number == 0 else None
            choice["token_ids"] = [token] if asks_ids else None
            yield self._chunk([choice], generated=number + 1)
        if (self.asked.get("stream_options") or {}).get("include_usage"):
            yield self._chunk([], usage=self._usage(len(ids)))
        yield DONE

    def _chunk(
        self, choices: list[Json], *, prompt_ids: list[int] | None = None, generated: int = 0, usage: Json | None = None
    ) -> bytes:
        shape = "chat.completion.chunk" if self.is_chat else "text_completion"
        chunk: Json = {"id": self.id, "object": shape, "created": self.created, "model": "tiny", "choices": choices}
        if self.is_chat and choices and "role" in choices[0]["delta"]:
            chunk["prompt_token_ids"] = prompt_ids
        if (self.asked.get("stream_options") or {}).get("continuous_usage_stats") and usage is None:
            usage = self._usage(generated)
        if usage is not None:
            chunk["usage"] = usage
        return b"data: " + json.dumps(chunk, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"

    def _usage(self, generated: int) -> Json:
        prompt = len(self.prompt)
        usage: Json = {"prompt_tokens": prompt, "total_tokens": prompt + generated, "completion_tokens": generated}
        return usage | ({"prompt_tokens_details": {"cached_tokens": 2}} if self.engine.details else {})


def _decoded(pending: bytes) -> tuple[str, bytes]:
    """Return the text as incremental detokenizers do: nothing while it ends with half a character."""
    try:
        return pending.decode(), b""
    except UnicodeDecodeError:
        return "", pending


@dataclass(frozen=True)
class Seen:
    """A stream as its caller sees it."""

    content: str
    reasoning: str
    roles: int
    finishes: list[str]
    ids: list[int]
    prompts: list[list[int]]
    heads: set[tuple[Any, ...]]
    usages: list[Json]
    ends: int


def seen(stream: bytes) -> Seen:
    """Return the content of *stream*; every event has to be complete, and nothing may follow the end."""
    assert stream.endswith(b"\n\n") or not stream
    datas = [event.removeprefix(b"data: ") for event in stream.split(b"\n\n")[:-1]]
    assert b"[DONE]" not in datas[:-1]
    chunks: list[Json] = [json.loads(data) for data in datas if data != b"[DONE]"]
    choices: list[Json] = [choice for chunk in chunks for choice in chunk["choices"]]
    deltas: list[Json] = [choice.get("delta", choice) for choice in choices]
    prompts = [part["prompt_token_ids"] for part in [*chunks, *choices] if part.get("prompt_token_ids")]
    return Seen(
        content="".join(delta.get("content", delta.get("text")) or "" for delta in deltas),
        reasoning="".join(delta.get("reasoning") or "" for delta in deltas),
        roles=sum("role" in delta for delta in deltas),
        finishes=[choice["finish_reason"] for choice in choices if choice["finish_reason"]],
        ids=[token for choice in choices for token in choice.get("token_ids") or ()],
        prompts=prompts,
        heads={(chunk["id"], chunk["object"], chunk["created"], chunk["model"]) for chunk in chunks},
        usages=[chunk["usage"] for chunk in chunks if chunk.get("usage")],
        ends=datas.count(b"[DONE]"),
    )


def a_call(path: str = CHAT_PATH, **fields: Any) -> Call:
    """Return a caller's stream; *fields* are added to its body."""
    prompt: Json = {"prompt": "Once"} if path == TEXT_PATH else {"messages": [{"role": "user", "content": "Tell"}]}
    body = {"model": "tiny", "stream": True, **prompt, "max_tokens": 100, **fields}
    said = {name: value for name, value in body.items() if value is not ...}
    return Call(b"POST", path.encode(), [(b"x-request-id", b"7")], json.dumps(said).encode(), True, "tiny")


def a_continuation(call: Call, *, mode: ContinuationMode = "tokens") -> Continuation | None:
    path = call.path.decode().partition("?")[0]
    body = (parse_completion if path == TEXT_PATH else parse_chat)(call.body)
    return continuation_of(path, call, body, mode=mode)


def relayed(
    continuation: Continuation, engine: Engine, *cuts: int, packet: int | None = None, hit_share: float | None = None
) -> bytes:
    """What the caller gets where each worker's bytes end after one of *cuts*, and the last one's do not.

    As the gateway does it: what was lost with the connection is asked of another worker, unless it was only the end.
    """
    asks_usage = b"include_usage" in continuation.call.body
    out, call = b"", continuation.call
    for cut in (*cuts, None):
        observer = continuation.observer(strip_usage=not asks_usage)
        stream = engine.stream(call)[:cut]
        size = packet or len(stream) or 1
        for place in range(0, len(stream), size):
            out += continuation.passed(observer.feed(stream[place : place + size]))
        if observer.done and observer.failed is None and not observer.aborted:
            return out + continuation.passed(observer.finish())
        closing = continuation.closing()
        if closing is not None:
            return out + closing
        following = continuation.next_call()
        assert following is not None, "it cannot be gone on with"
        continuation.resumed(hit_share=hit_share)
        call = following
    raise AssertionError("the last stream has not ended")
