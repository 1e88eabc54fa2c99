"""Small traces, as files and as requests."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.replay.entrant import ENTRANTS
from replay.run import Answer, Run
from replay.setting import Setting
from replay.trace import Recorded, read_trace


def asked(at_ms: int, tokens: int, ids: Sequence[int], output: int = 1) -> dict[str, Any]:
    return {"timestamp": at_ms, "input_length": tokens, "output_length": output, "hash_ids": list(ids)}


def session(number: int, *, turns: int = 2) -> dict[str, Any]:
    requests = [
        {
            "think_s": 9.0 * turn,
            "input_length": 1024 * (turn + 2),
            "output_length": 10,
            "hash_ids": [100 * number + block for block in range(turn + 2)],
        }
        for turn in range(turns)
    ]
    return {"session": str(number), "requests": requests}


def written(directory: Path, *lines: dict[str, Any]) -> Path:
    path = directory / "trace.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def three(directory: Path) -> Path:
    """Prompts of two full blocks of 512 tokens and 76 tokens more; the third is the second again."""
    return written(
        directory,
        asked(0, 1100, [1, 2, 3], output=21),
        asked(5_000, 1100, [1, 4, 5], output=0),
        asked(15_000, 1100, [1, 4, 5]),
    )


def recorded(
    number: int,
    *,
    session: str | None = None,
    wait_s: float = 0.0,
    group: str | None = None,
    spawns: str | None = None,
) -> Recorded:
    return Recorded(number, session, wait_s, 1000, 1, (), group=group, spawns=spawns)


def answers(setting: Setting, strategy: str = "prefix_aware", seed: int = 1) -> list[Answer]:
    return Run(read_trace(setting.trace), setting, ENTRANTS[strategy], seed=seed).answers()
