"""`warmgate` as somebody at a terminal has it: a line of arguments in, what was printed and the exit code out."""

import io
import json
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gateway.cli.main import main
from gateway.tenancy.ledger.entry import Entry
from gateway.tenancy.ledger.record import UsageRecord
from gateway.tenancy.ledger.sqlite_book import book
from gateway.tenancy.ledger.sqlite_usage import create

SETTINGS = """\
models: [{name: tiny, workers: [{url: 'http://127.0.0.1:1'}]}]
limit_templates: [{name: standard, limits: {requests_per_minute: 600}}]
teams: [{name: declared, keys: [{id: of-the-file, secret: a-secret-of-the-file}]}]
"""


class Printed(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The cells of a table, that have no spaces in them."""
        return [line.split() for line in self.out.splitlines()]


class Terminal:
    """Beside the settings of a gateway with a store in *folder*."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = folder / "warmgate.db"
        self.config = folder / "warmgate.yaml"
        self.config.write_text(
            f"{SETTINGS}guardrails: [{{name: pii, kind: pii}}]\nstore: {{url: 'sqlite:///{self.store}'}}\n"
        )
        self.monkeypatch = monkeypatch
        for name in ("WARMGATE_ADMIN_URL", "WARMGATE_ADMIN_KEY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))

    def run(self, *arguments: str) -> Printed:
        """With these arguments alone."""
        out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()
        with self.monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            try:
                code = main(arguments)
            except SystemExit as end:  # from argparse
                code = int(end.code or 0)
            out.flush()
        return Printed(code, out.buffer.getvalue().decode(), err.getvalue())

    def there(self, *arguments: str) -> Printed:
        """Done in the store; fails the test if it failed."""
        printed = self.run(*arguments, "--config", str(self.config))
        assert (0, "") == (printed.code, printed.err)
        return printed

    def fails(self, *arguments: str) -> tuple[int, str]:
        """The exit code, and what it said."""
        printed = self.run(*arguments, "--config", str(self.config))
        assert "" == printed.out
        return printed.code, printed.err

    def book(self, entries: Sequence[Entry]) -> None:
        with closing(sqlite3.connect(self.store)) as connection, connection:
            create(connection)
            book(connection, entries)


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    return Terminal(tmp_path, monkeypatch)


def entry(day: str = "2026-11-21", **changes: Any) -> Entry:
    """A request of the key ``ci`` that was answered."""
    fields: dict[str, Any] = {
        "time": f"{day}T08:00:00.000Z",
        "request_id": "r-1",
        "team": "blue",
        "project": None,
        "key": "ci",
        "user": None,
        "model_asked": "tiny",
        "model": "tiny",
        "backend": "http://a",
        "outcome": "ok",
        "status": 200,
        "prompt_tokens": 100,
        "cached_tokens": 60,
        "completion_tokens": 10,
        "cost_usd": 0.25,
        "saved_usd": 0.5,
        "fell_back": False,
        "ttft_ms": 12.5,
        "duration_ms": 80.0,
    }
    return Entry.from_record(day, UsageRecord(**{**fields, **changes}))
