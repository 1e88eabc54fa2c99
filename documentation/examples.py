"""Checks of the examples in the pages: settings must be valid, commands and JSON must parse, Python must compile."""

import argparse
import contextlib
import io
import json
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from gateway.cli.main import command_parser
from gateway.settings import SettingsError
from gateway.settings.schema import Settings
from gateway.settings.source import build

SMALLEST: dict[str, Any] = {"models": [{"name": "tiny", "workers": [{"url": "http://127.0.0.1:18101"}]}]}
"""Smallest valid settings. They complete examples that show only part of a settings file."""

_BLOCK = re.compile(
    r"^(?P<marks>(?:<!--[^\n]*-->\n+)*)(?P<indent> *)```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
_MARK = re.compile(r"<!-- settings: (part|other) -->")
_FORMS = {"WEBHOOK_SECRET": "whsec_" + "A" * 32, "URL": "https://chat.example.com/hooks/1"}
"""Placeholders for secrets that must have a form, by the end of the variable's name."""
_SECRET_ENV = re.compile(r"secret_env: *\"?(\w+)")
_HEREDOC = re.compile(r"<<-? *(['\"]?)(\w+)\1([^\n]*)\n.*?^\s*\2$", re.DOTALL | re.MULTILINE)
_PROGRAM = re.compile(r"(.*bin/)?warmgate")
_ASSIGNMENT = re.compile(r"\w+=.*")
_OPERATORS = frozenset({"|", "||", "&", "&&", ";", "(", ")", ">", ">>", "<", "2>&1", "&>"})
_BEFORE_COMMANDS = frozenset({"--", "sudo", "time", "then", "do", "!"})


@dataclass(frozen=True, slots=True)
class Example:
    """Fenced code block of a page.

    *mark* is "part" or "other" if the comment ``<!-- settings: ... -->`` precedes the block: part of a settings file,
    or a file of another program.
    """

    language: str
    text: str
    line: int
    mark: str = ""


def examples_of(page: str) -> Iterator[Example]:
    """Yield the fenced blocks of the Markdown text *page* that name their language."""
    for block in _BLOCK.finditer(page):
        lines = block["text"].splitlines(keepends=True)
        text = "".join(line.removeprefix(block["indent"]) for line in lines)
        mark = _MARK.search(block["marks"])
        line = page.count("\n", 0, block.start("language")) + 1
        yield Example(block["language"], text, line, mark[1] if mark else "")


def faults(page: str) -> list[str]:
    """Return an error message for each wrong example in the Markdown text *page*, with its line."""
    return [
        f"line {example.line}: {fault}"
        for example in examples_of(page)
        if example.language in _CHECKS
        for fault in _CHECKS[example.language](example)
    ]


def settings_in(example: Example) -> dict[str, Any] | None:
    """Return complete settings from the YAML example, or None if the example is a file of another program.

    An example shows settings if all its keys are groups of settings, or if it has ``config`` as the chart's values do.
    """
    if example.mark == "other":
        return None
    data = yaml.safe_load(example.text)
    if not isinstance(data, dict):
        return None
    if isinstance(data.get("config"), dict):
        return {**SMALLEST, **data["config"]}
    if example.mark == "part" or "models" in data or data.keys() <= Settings.model_fields.keys():
        return {**SMALLEST, **data}
    return None


def commands_in(script: str) -> Iterator[list[str]]:
    """Yield the arguments of each ``warmgate`` command in the shell script *script*."""
    for statement in _statements(_HEREDOC.sub(r"\3", script)):
        words: list[str] | None = None
        is_command = True
        for token in statement:
            if words is not None and token not in _OPERATORS:
                words.append(token)
            elif words is not None:
                yield words
                words, is_command = None, True
            elif is_command and _PROGRAM.fullmatch(token):
                words = []
            else:
                is_command = token in _OPERATORS | _BEFORE_COMMANDS or (is_command and bool(_ASSIGNMENT.match(token)))
        if words is not None:
            yield words


def _statements(script: str) -> Iterator[list[str]]:
    """Yield the tokens of each statement of *script*. A quoted text can span lines.

    Raises:
        ValueError: if a quotation is not closed.
    """
    pending = ""
    for line in script.replace("\\\n", " ").splitlines():
        pending += line + "\n"
        try:
            yield _tokens(pending)
        except ValueError:
            continue
        pending = ""
    if pending:
        yield _tokens(pending)


def _tokens(statement: str) -> list[str]:
    lexer = shlex.shlex(statement, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(lexer)


def _wrong_settings(example: Example) -> list[str]:
    try:
        settings = settings_in(example)
    except yaml.YAMLError as fault:
        return [f"no YAML: {fault}"]
    if settings is None:
        return []
    secrets = {
        name: _FORMS.get(name.partition("_")[2], "pk-placeholder:sk-placeholder-of-a-secret")
        for name in _SECRET_ENV.findall(example.text)
    }
    warnings: list[str] = []
    try:
        build(settings, secrets, warn=warnings.append)
    except SettingsError as fault:
        return list(fault.sentences)
    return [warning for warning in warnings if "deprecated" in warning]


def _wrong_commands(example: Example) -> list[str]:
    try:
        return [fault for words in commands_in(example.text) for fault in _usage_fault(words)]
    except ValueError as fault:
        return [f"no shell script: {fault}"]


def _usage_fault(words: list[str]) -> list[str]:
    output = io.StringIO()
    try:
        with contextlib.redirect_stderr(output), contextlib.redirect_stdout(output):
            command_parser().parse_args(words)
    except (SystemExit, argparse.ArgumentError) as end:
        if not (isinstance(end, SystemExit) and end.code == 0):
            return [f"warmgate {shlex.join(words)}: {output.getvalue().strip().splitlines()[-1]}"]
    return []


def _wrong_python(example: Example) -> list[str]:
    try:
        compile(example.text, "example", "exec")
    except SyntaxError as fault:
        return [f"no Python: {fault}"]
    return []


def _wrong_json(example: Example) -> list[str]:
    try:
        for text in [example.text] if example.text.startswith(("{\n", "[\n")) else example.text.splitlines():
            json.loads(text)
    except ValueError as fault:
        return [f"no JSON: {fault}"]
    return []


_CHECKS: dict[str, Callable[[Example], list[str]]] = {
    "yaml": _wrong_settings,
    "sh": _wrong_commands,
    "python": _wrong_python,
    "json": _wrong_json,
}
