from pathlib import Path

import pytest

from gateway.protocol.usage import Usage
from gateway.telemetry.shapes.shape_trace import trace_of
from tests.gateway.telemetry.shapes.examples import completed, recorded

TEXT = "".join(chr(0x100 + number) for number in range(64))


def test_shared_steps_are_shared_blocks(tmp_path: Path) -> None:
    """64 text blocks of 64 bytes are 16 trace blocks of 64 tokens, of which the second prompt shares eight."""
    other = TEXT[:32] + TEXT[:32]
    trace = trace_of(recorded(tmp_path, completed(TEXT, 1.0), completed(other, 3.5))).trace
    one, two = trace.requests

    assert 64 == trace.block_tokens
    assert (16, 16) == (len(one.blocks), len(two.blocks))
    assert one.blocks[:8] == two.blocks[:8]
    assert not set(one.blocks[8:]) & set(two.blocks[8:])
    assert [0.0, 2.5] == [each.wait_s for each in trace.requests]
    assert [1024, 1024] == [each.prompt_tokens for each in trace.requests]


def test_a_prompt_that_an_engine_counts_higher_has_blocks_of_its_own(tmp_path: Path) -> None:
    """The second prompt has a template of 64 tokens, which the gateway does not see."""
    requests = [completed(TEXT, 1.0), completed(TEXT, 5.0, usage=Usage(1088, 40, 0))]
    one, two = trace_of(recorded(tmp_path, *requests)).trace.requests

    assert 17 == len(two.blocks)
    assert two.blocks[-1] not in one.blocks


def test_a_longer_prompt_follows_the_answer_before(tmp_path: Path) -> None:
    """Its first answer of 129 tokens fills two blocks, and the next turn comes 3 s after it."""
    first = completed(TEXT[:32], 0.0, usage=Usage(512, 129, 0), lasts_s=2.0)
    found = trace_of(recorded(tmp_path, first, completed(TEXT, 5.0)))
    (session,) = found.sessions
    one, two = session.requests

    assert (0.0, [0.0, 3.0]) == (session.begins_s, [each.wait_s for each in session.requests])
    assert two.blocks[8:10] == one.answer_blocks


def test_a_prompt_that_came_before_the_answer_begins_a_session(tmp_path: Path) -> None:
    """It cannot be the next turn."""
    found = trace_of(recorded(tmp_path, completed(TEXT[:32], 0.0, lasts_s=9.0), completed(TEXT, 5.0)))

    assert [0.0, 5.0] == [session.begins_s for session in found.sessions]


def test_equal_prompts_are_not_turns(tmp_path: Path) -> None:
    """Two callers with the same prompt do not wait for each other."""
    found = trace_of(recorded(tmp_path, completed(TEXT, 0.0), completed(TEXT, 5.0)))

    assert 2 == len(found.sessions)


def test_no_shapes_are_no_trace() -> None:
    with pytest.raises(ValueError, match="no requests were recorded in this time"):
        trace_of([])
