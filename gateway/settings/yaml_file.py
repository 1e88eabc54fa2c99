"""YAML files with exact error positions. Error messages have line and column, but no text that could be a secret."""

import re
from pathlib import Path
from typing import Any

import yaml

from gateway.settings.faults import SettingsError, kind_of


class _Loader(yaml.SafeLoader):
    """YAML loader that rejects repeated keys. In contrast, PyYAML silently uses the last value of a repeated key."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen and key.value != "<<":
                raise _KeyTwice(problem=f"the key {key.value!r} is given twice", problem_mark=key.start_mark)
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else None)
        return super().construct_mapping(node, deep=deep)


class _KeyTwice(yaml.MarkedYAMLError):
    pass


def read(path: Path) -> dict[str, Any]:
    """Return the mapping in the file at *path*. An empty file gives an empty mapping.

    Raises:
        SettingsError: if the file cannot be read, is not YAML, or does not contain a mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SettingsError([f"The configuration file {path} does not exist."]) from None
    except UnicodeDecodeError as fault:
        raise SettingsError([f"{path} is not UTF-8 text (byte {fault.start + 1})."]) from None
    except OSError as fault:
        raise SettingsError([f"The configuration file {path} cannot be read: {fault.strerror}."]) from None
    try:
        data = parse(text)
    except yaml.YAMLError as fault:
        raise SettingsError([f"{path} is not valid YAML: {where_and_why(fault, text)}."]) from None
    except RecursionError:
        raise SettingsError([f"{path} is nested too deeply."]) from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise SettingsError([f"{path} must hold a mapping (`server: ...`, `models: ...`), not {kind_of(data)}."])
    return data


def parse(text: str) -> Any:
    """Return the value of the YAML *text*.

    Raises:
        yaml.YAMLError: if *text* is not YAML, or contains a key twice.
    """
    loader = _Loader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def where_and_why(fault: yaml.YAMLError, text: str) -> str:
    """Return the line, column and reason of *fault* in *text*, without any text that could be a secret."""
    if isinstance(fault, yaml.reader.ReaderError):
        before = text[: fault.position]
        return f"line {before.count(chr(10)) + 1}, column {fault.position - before.rfind(chr(10))}: control character"
    if not isinstance(fault, yaml.MarkedYAMLError) or fault.problem_mark is None:
        return "unreadable"
    mark, why = fault.problem_mark, fault.problem or "unexpected text"
    if isinstance(fault, yaml.composer.ComposerError | yaml.constructor.ConstructorError):
        # A value that begins with * or ! is an alias or a tag to YAML, and these messages quote it: it may be a secret.
        why = re.sub(r" '.*'", "", why) + " (a value that begins with * or ! needs quotes)"
    return f"line {mark.line + 1}, column {mark.column + 1}: {why}"
