"""Recorded shapes of requests, from the real gateway before simulated workers."""

from pathlib import Path
from typing import Any

from gateway.telemetry.shapes.reader import read_shapes
from gateway.telemetry.shapes.shape_trace import trace_of
from replay.trace import boundless_hit_rate
from tests.e2e.stack import stack

WORDS = " ".join(f"word{number}" for number in range(600))


async def test_a_conversation_is_recorded_with_what_its_turns_share(tmp_path: Path) -> None:
    """Three turns: each prompt extends the one before and its answer, and the trace has the hits of the engine."""
    shapes_on: dict[str, Any] = {"enabled": True, "directory": str(tmp_path)}
    messages: list[Any] = [{"role": "user", "content": WORDS}]
    cached = []
    async with stack(1, request_shapes=shapes_on) as running:
        for turn in range(3):
            answer = await running.openai.chat.completions.create(model="tiny", messages=messages, max_tokens=200)
            assert answer.usage is not None
            assert answer.usage.prompt_tokens_details is not None
            cached.append(answer.usage.prompt_tokens_details.cached_tokens)
            messages.append({"role": "assistant", "content": answer.choices[0].message.content})
            messages.append({"role": "user", "content": f"And then? {turn} {WORDS[turn:500]}"})
    shapes = read_shapes(tmp_path)
    found = trace_of(shapes)
    (session,) = found.sessions

    assert 3 == len(shapes)
    assert cached == [shape.cached_tokens for shape in shapes]
    assert [0, 1, 2] == [request.number for request in session.requests]
    first, second, third = session.requests
    assert first.blocks + first.answer_blocks == second.blocks[: len(first.blocks) + len(first.answer_blocks)]
    assert second.blocks[: len(first.blocks)] == third.blocks[: len(first.blocks)]
    total = sum(shape.prompt_tokens for shape in shapes)
    assert abs(boundless_hit_rate(found.trace) - sum(filter(None, cached)) / total) < 0.15


async def test_nothing_is_recorded_unless_it_is_enabled(tmp_path: Path) -> None:
    async with stack(1, request_shapes={"directory": str(tmp_path)}) as running:
        await running.openai.completions.create(model="tiny", prompt="Hello", max_tokens=2)

    assert [] == read_shapes(tmp_path)
