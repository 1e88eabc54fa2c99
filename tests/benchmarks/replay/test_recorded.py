from pathlib import Path

import pytest

from benchmarks.replay.recorded import SETTINGS, TRACES, trace_path
from replay.trace import read_trace


@pytest.mark.parametrize(
    ("name", "block_tokens", "count", "is_closed_loop"),
    [
        ("mooncake_synthetic_2000.jsonl", 512, 2000, False),
        ("ragpulse_3553_blk64", 64, 3553, False),
        ("agentic_248_sessions_blk1024.jsonl.gz", 1024, 8623, True),
    ],
)
def test_the_shipped_traces_are_read(name: str, block_tokens: int, count: int, is_closed_loop: bool) -> None:
    trace = read_trace(trace_path(name))

    assert (block_tokens, is_closed_loop, count) == (trace.block_tokens, trace.is_closed_loop, len(trace.requests))


def test_other_traces_are_found_by_their_paths() -> None:
    """What is no name of a shipped one is a path."""
    assert Path("somewhere/else.jsonl") == trace_path("somewhere/else.jsonl")
    assert TRACES / "ragpulse_3553_blk64.jsonl.gz" == trace_path("ragpulse_3553_blk64.jsonl.gz")


def test_the_settings_for_the_record_are_of_shipped_traces() -> None:
    """Four, each with a title of its own."""
    assert 4 == len({setting.title for setting in SETTINGS})
    assert [] == [setting for setting in SETTINGS if not setting.trace.is_file()]
