"""The traces that are shipped, and the settings in which they are replayed for the record."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import ROOT
from replay.setting import Setting

TRACES = ROOT / "benchmarks" / "traces"

CONVERSATION = TRACES / "mooncake_conversation_6000.jsonl"
SYNTHETIC = TRACES / "mooncake_synthetic_2000.jsonl"
AGENTIC = TRACES / "agentic_248_sessions_blk1024.jsonl.gz"
RAG = TRACES / "ragpulse_3553_blk64.jsonl.gz"

SETTINGS: Sequence[Setting] = (
    Setting("Chat: mooncake conversation", CONVERSATION, 8, 5712, speed=2.0),
    Setting("Bursts of the same prefix: mooncake synthetic", SYNTHETIC, 8, 690, 1.5),
    Setting("Coding agents", AGENTIC, 8, 1000, users=128),
    Setting("RAG: ragpulse", RAG, 4, 8192, poisson_per_s=6.0),
)


def trace_path(text: str) -> Path:
    """A shipped trace by its name, with or without endings, or any file by its path."""
    shipped = [path for path in TRACES.iterdir() if text in {path.name, path.name.split(".")[0]}]
    return shipped[0] if shipped else Path(text)
