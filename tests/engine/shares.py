"""The shares of prompts that were predicted and reported to be cached, side by side, as a page and as a file."""

import dataclasses
import statistics
from collections.abc import Sequence

from benchmarks.report import Bar, Circumstances, Report, Table
from tests.engine.conversations import Turn
from tests.engine.stack import BLOCK_BYTES, BLOCK_TOKENS, CONTEXT_TOKENS

NEAR = 0.10  # of the prompt
BAR = 45  # of 50 turns


def later(turns: Sequence[Turn]) -> list[Turn]:
    """*turns* without the first of each conversation."""
    return [turn for turn in turns if turn.number]


def report(turns: Sequence[Turn], circumstances: Circumstances) -> Report:
    made = Report("engine", "Cached share of the prompt: predicted by the gateway, reported by vLLM", circumstances)
    counted = later(turns)
    near = sum(turn.off_by < NEAR for turn in counted)
    made.bars = [Bar(f"turns of {len(counted)} with both shares within 10 points", near, ">=", BAR)]
    columns = ("conversation", "turns", "engines", "prompt tokens", "predicted", "reported", "farthest apart, points")
    rows = []
    for name in dict.fromkeys(turn.conversation for turn in counted):
        of_it = [turn for turn in counted if turn.conversation == name]
        engines = len({turn.engine for turn in turns if turn.conversation == name})
        predicted = statistics.fmean(turn.predicted for turn in of_it)
        seen = statistics.fmean(turn.reported for turn in of_it)
        farthest = max(turn.off_by for turn in of_it) * 100
        rows.append(
            (name, len(of_it), engines, of_it[-1].prompt_tokens, f"{predicted:.1%}", f"{seen:.1%}", round(farthest, 1))
        )
    made.tables = [Table("Second and later turns, means over the turns of a conversation", columns, rows)]
    made.notes = [
        f"Two engines on the CPU, blocks of {BLOCK_TOKENS} tokens, {CONTEXT_TOKENS} tokens of context, the seeded "
        f"model; some conversations at once.",
        f"Predicted: hit blocks of all blocks of the prompt's text, {BLOCK_BYTES} bytes each. Reported: cached tokens "
        "of all tokens of the prompt, from the usage.",
        "Prompt tokens: of the last turn.",
    ]
    made.figures = {"turns": [dataclasses.asdict(turn) for turn in turns]}
    return made
