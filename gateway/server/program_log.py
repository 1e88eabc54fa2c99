"""Log of the program on stderr, as text lines for people or as JSON lines for log collectors."""

import logging
import sys
import threading
import time
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal

import msgspec

_log = logging.getLogger(__name__)

Format = Literal["text", "json"]

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_TEXT_OF_PROCESS = "%(asctime)s %(levelname)s process={} %(name)s: %(message)s"
_NOISY = ("httpx", "httpcore")
"""Loggers that would write one line for each health check of a worker."""


class JsonLine(logging.Formatter):
    """Log formatter that writes each record as one JSON object on one line.

    The fields ``time`` (RFC 3339, UTC) and ``event`` have the same names as in the request log, where ``event`` is
    ``request``. If the gateway has several processes, *process* is the number of this one.
    """

    def __init__(self, process: int | None = None) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, str | int] = {
            "time": _moment(record.created),
            "event": "log",
            **({} if self._process is None else {"process": self._process}),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return msgspec.json.encode(line).decode()


def log_to_stderr(
    level: str,
    format: Format = "text",  # noqa: A002  # the name that the setting has
    *,
    process: int | None = None,
) -> None:
    """Configure logging to stderr, unless an embedding program has already configured logging.

    If the gateway has several processes, each line contains *process*, the number of this one.

    The JSON log also contains Python warnings and uncaught exceptions from all threads.
    """
    is_ours = not logging.root.handlers
    handler = logging.StreamHandler()
    text = _TEXT if process is None else _TEXT_OF_PROCESS.format(process)
    handler.setFormatter(JsonLine(process) if format == "json" else logging.Formatter(text))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)
    if is_ours and format == "json":
        logging.captureWarnings(True)
        sys.excepthook = _log_uncaught
        threading.excepthook = lambda uncaught: _log_uncaught(
            uncaught.exc_type, uncaught.exc_value or uncaught.exc_type(), uncaught.exc_traceback
        )


def say(sentence: str) -> None:
    """Write *sentence* to stderr, as a JSON log line if the program logs JSON, and otherwise as plain text."""
    if any(isinstance(handler.formatter, JsonLine) for handler in logging.root.handlers):
        _log.error(sentence)
    else:
        sys.stderr.write(f"{sentence}\n")


def event_line(event: str, **fields: str) -> str:
    """Return a JSON line for stdout that describes *event*, with the current time and *fields*."""
    return msgspec.json.encode({"time": _moment(time.time()), "event": event, **fields}).decode()  # noqa: TID251


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt | SystemExit):
        return
    _log.critical("uncaught exception: %s", kind.__name__, exc_info=(kind, error, trace))


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
