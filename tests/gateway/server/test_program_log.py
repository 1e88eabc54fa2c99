"""The log of the program on stderr."""

import json
import logging
import subprocess
import sys

import pytest

from gateway.server.program_log import JsonLine


def record(text: str = "%s is away", *args: object, **more: object) -> logging.LogRecord:
    made = logging.LogRecord("gateway.workers.health", logging.WARNING, "health.py", 7, text, args or ("w1",), None)
    made.created = 1_767_225_600.25
    made.__dict__.update(more)
    return made


def test_a_line_has_exactly_these_fields() -> None:
    """Outside tools read them."""
    assert {
        "time": "2026-01-01T00:00:00.250Z",
        "event": "log",
        "level": "warning",
        "logger": "gateway.workers.health",
        "message": "w1 is away",
    } == json.loads(JsonLine().format(record()))


def test_a_line_of_one_of_several_processes_names_it() -> None:
    assert 2 == json.loads(JsonLine(2).format(record()))["process"]


def test_it_stays_one_line_whatever_is_said() -> None:
    assert '"message":"a\\n\\"b\\""' in JsonLine().format(record("%s", 'a\n"b"'))


def test_an_exception_is_logged_with_its_traceback() -> None:
    try:
        int("no")
    except ValueError:
        line = json.loads(JsonLine().format(record(exc_info=sys.exc_info(), stack_info="Stack: here")))

    assert line["exception"].endswith("invalid literal for int() with base 10: 'no'")
    assert "Traceback" in line["exception"]
    assert "Stack: here" == line["stack"]


@pytest.mark.e2e
def test_a_process_logs_in_the_form_that_is_set() -> None:
    """From its level on; what is chatty less, and set up once."""
    program = """
import logging
from gateway.server.program_log import log_to_stderr
for form in ("json", "text"):
    log_to_stderr("info", form)
    log_to_stderr("debug", "json")
    logging.getLogger("gateway.workers.health").info("w1 is up")
    logging.getLogger("gateway.workers.health").debug("not this")
    logging.getLogger("httpx").info("nor this")
    logging.getLogger().handlers.clear()
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stderr
    in_json, in_text = said.splitlines()

    assert ("info", "gateway.workers.health", "w1 is up") == tuple(
        json.loads(in_json)[name] for name in ("level", "logger", "message")
    )
    assert in_text.endswith(" INFO gateway.workers.health: w1 is up")
