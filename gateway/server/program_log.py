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
_NOISY = ("httpx", "httpcore")
"""Loggers that would write one line for each health check of a worker."""


class JsonLine(logging.Formatter):
    """Log formatter that writes each record as one JSON object on one line.

    The fields ``time`` (RFC 3339, UTC) and ``event`` have the same names as in the request log, where ``event`` is
    ``request``.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _moment(record.created),
            "event": "log",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = self.formatStack(record.stack_info)
        return msgspec.json.encode(line).decode()


def log_to_stderr(level: str, format: Format = "text") -> None:  # noqa: A002  # the name that the setting has
    """Configure logging to stderr, unless an embedding program has already configured logging.

    The JSON log also contains Python warnings and uncaught exceptions from all threads.
    """
    is_ours = not logging.root.handlers
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLine() if format == "json" else logging.Formatter(_TEXT))
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
