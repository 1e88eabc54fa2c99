"""Frames recorded from a real vLLM; `recorded_vllm.json` says how."""

import json
from pathlib import Path
from typing import Any

RECORDINGS: dict[str, Any] = json.loads(Path(__file__).with_name("recorded_vllm.json").read_text(encoding="utf-8"))
KINDS = ("int_hashes", "bytes_hashes")


def frames(kind: str, what: str) -> list[list[bytes]]:
    """Return recorded frames; *what* is published or replayed."""
    return [[bytes.fromhex(frame) for frame in message] for message in RECORDINGS[kind][what]]
