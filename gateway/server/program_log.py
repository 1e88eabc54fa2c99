"""What the program itself has to say, on stderr: lines of text for people, or of JSON for collectors of logs."""

import logging
from datetime import UTC, datetime
from typing import Literal

import msgspec

Format = Literal["text", "json"]

_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_CHATTY = ("httpx", "httpcore")
"""A line for every health check."""


class JsonLine(logging.Formatter):
    """One object of JSON per record, on one line, whatever is in its text.

    ``time`` (RFC 3339, UTC) and ``event`` are called as in the lines of requests, where ``event`` is ``request``.
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
    """Set logging up, unless that has been done already, by a program that this one is a part of."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLine() if format == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    for chatty in _CHATTY:
        logging.getLogger(chatty).setLevel(logging.WARNING)


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
