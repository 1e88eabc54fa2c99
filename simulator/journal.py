"""Record of a worker's recent requests. Tests read the record to see what a gateway sent upstream."""

import base64
import hashlib
from collections import deque
from dataclasses import dataclass
from typing import Any, Literal

State = Literal["running", "finished", "aborted", "rejected", "failed"]
"""State of a request. "aborted": the client disconnected. "rejected": the request got an error. "failed": a fault
affected it.
"""


@dataclass(slots=True, kw_only=True)
class JournalEntry:
    """Inference request in the journal, with its times in Unix seconds."""

    path: str
    headers: list[tuple[bytes, bytes]]
    at: float
    id: str | None = None
    body: bytes = b""
    prompt_digest: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    state: State = "running"
    fault: str | None = None
    ended_at: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "path": self.path,
            "prompt_digest": self.prompt_digest,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in self.headers],
            "body_sha256": hashlib.sha256(self.body).hexdigest(),
            "body": base64.b64encode(self.body).decode(),
            "state": self.state,
            "fault": self.fault,
            "at": self.at,
            "ended_at": self.ended_at,
        }


class Journal:
    """Record of the last *limit* requests, oldest first."""

    def __init__(self, limit: int = 100) -> None:
        self._entries: deque[JournalEntry] = deque(maxlen=limit)

    def add(self, entry: JournalEntry) -> None:
        self._entries.append(entry)

    def clear(self) -> None:
        self._entries.clear()

    def to_json(self) -> list[dict[str, Any]]:
        return [entry.to_json() for entry in self._entries]
