"""Recorded conversations held again with the model, and what was predicted and reported to be cached at each turn."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.report import ROOT
from tests.engine.stack import HIT_BLOCKS_HEADER, MODEL, WORKER_HEADER, Stack

RECORDED = ROOT / "benchmarks" / "traces" / "tau_airline_conversations.jsonl"
ANSWER_TOKENS = 24

Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """One answered request of a conversation."""

    conversation: str
    number: int
    """0 for the first."""
    engine: str
    request_id: str
    prompt_tokens: int
    cached_tokens: int
    prompt_blocks: int
    hit_blocks: int
    """Blocks of text that the gateway expected to be cached, when it chose the engine."""

    @property
    def reported(self) -> float:
        """Cached share of the prompt."""
        return self.cached_tokens / self.prompt_tokens

    @property
    def predicted(self) -> float:
        """The same, of the prompt's text."""
        return self.hit_blocks / self.prompt_blocks

    @property
    def off_by(self) -> float:
        return abs(self.predicted - self.reported)


@dataclass(frozen=True, slots=True)
class Recording:
    """One conversation; what is said between two answers comes from the recording, tool calls and results included."""

    name: str
    said: list[list[Message]]
    """Messages before the first answer, between the first and the second, and so on; one answer follows each."""


def recordings(*, turns: int) -> Iterator[Recording]:
    """The conversations that have at least *turns* answers in words, cut after these."""
    with RECORDED.open(encoding="utf-8") as lines:
        for line in lines:
            recorded = json.loads(line)
            said = _between_answers(recorded["messages"])
            if len(said) >= turns:
                yield Recording(recorded["session"], said[:turns])


def of_its_own(recording: Recording) -> Recording:
    """The same conversation under a name that its system prompt begins with, so that it shares nothing with others."""
    (system, *rest), *others = recording.said
    named = {**system, "content": f"You are the agent {recording.name}.\n\n{system['content']}"}
    return Recording(f"agent {recording.name}", [[named, *rest], *others])


def hold(served: Stack, recording: Recording) -> Iterator[Turn]:
    """Ask turn after turn, each with all before it and the model's own answers, as an application does."""
    messages: list[Message] = []
    for number, said in enumerate(recording.said):
        messages += said
        turn, answer = _ask(served, recording.name, number, messages)
        messages.append({"role": "assistant", "content": answer})
        yield turn


def _between_answers(messages: list[Message]) -> list[list[Message]]:
    """An assistant's message in words ends a piece; one that calls a tool is part of what leads to the answer."""
    pieces: list[list[Message]] = []
    piece: list[Message] = []
    for message in messages:
        if message["role"] == "assistant" and not message.get("tool_calls"):
            pieces.append(piece)
            piece = []
        else:
            piece.append(message)
    return pieces


def _ask(served: Stack, name: str, number: int, messages: list[Message]) -> tuple[Turn, str]:
    arguments: dict[str, Any] = {"model": MODEL, "messages": messages, "temperature": 0, "max_tokens": ANSWER_TOKENS}
    reply = served.openai.chat.completions.with_raw_response.create(**arguments)
    completion = reply.parse()
    usage = completion.usage
    assert usage is not None
    assert usage.prompt_tokens_details is not None, "the engine does not report cached tokens"
    request_id = reply.headers["x-request-id"]
    turn = Turn(
        conversation=name,
        number=number,
        engine=reply.headers[WORKER_HEADER],
        request_id=request_id,
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.prompt_tokens_details.cached_tokens or 0,
        prompt_blocks=served.line(request_id)["prompt_blocks"],
        hit_blocks=int(reply.headers[HIT_BLOCKS_HEADER]),
    )
    return turn, completion.choices[0].message.content or ""
