import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.report import ROOT

TRACES = ROOT / "benchmarks" / "traces"


def lines(path: Path) -> list[dict[str, Any]]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(
    ("name", "count", "fields"),
    [
        ("mooncake_conversation_6000.jsonl", 6000, {"timestamp", "input_length", "output_length", "hash_ids"}),
        ("mooncake_synthetic_2000.jsonl", 2000, {"timestamp", "input_length", "output_length", "hash_ids"}),
        ("ragpulse_3553_blk64.jsonl.gz", 3553, {"timestamp", "input_length", "output_length", "hash_ids"}),
        ("agentic_248_sessions_blk1024.jsonl.gz", 248, {"session", "requests"}),
        ("tau_airline_conversations.jsonl", 100, {"session", "messages"}),
        ("mt_bench_questions.jsonl", 80, {"question_id", "turns"}),
    ],
)
def test_a_trace_is_there_and_whole(name: str, count: int, fields: set[str]) -> None:
    """Every shipped trace has as many lines as its table says, each with the fields it should have."""
    found = lines(TRACES / name)

    assert count == len(found)
    assert all(fields <= line.keys() for line in found)


def test_every_trace_has_its_source_and_licence() -> None:
    """The table beside the traces names each file, with where it comes from and a licence."""
    table = (TRACES / "README.md").read_text().splitlines()
    rows = {row.split("`")[1]: row for row in table if row.startswith("| `")}

    assert {path.name for path in TRACES.iterdir()} - {"README.md"} == rows.keys()
    assert all(row.rstrip(" |").endswith(("Apache-2.0", "MIT")) for row in rows.values())
