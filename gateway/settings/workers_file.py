"""File with the workers of one model: a list in the format of `models[].workers`, in YAML or JSON."""

import json
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from gateway.protocol.field_names import Place, dotted
from gateway.settings.faults import SettingsError, kind_of, sentences_of
from gateway.settings.models import ModelSettings, WorkerSettings
from gateway.settings.yaml_file import parse, where_and_why

_PLACE: Place = ("models", 0)
"""Place of the workers in the settings. Error messages about a workers file omit this place."""


def workers_in(content: bytes, path: Path) -> tuple[WorkerSettings, ...]:
    """Return the workers listed in *content*, which is the content of the file *path*.

    Raises:
        SettingsError: if the file is invalid, with an error message for each fault. An empty file is invalid,
            because it may be half written.
    """
    data = _data(content, path)
    if not isinstance(data, list):
        raise SettingsError([f"{path} must hold a list of workers (`- url: ...`; `[]` for none), not {kind_of(data)}."])
    try:
        # The name of a file spares the list from having to hold something.
        # Whether the model that they are for divides its requests is checked when they are put in force.
        divides = {"flow": "sglang"}
        model = ModelSettings.model_validate(
            {"name": "any", "workers": data, "workers_file": str(path), "disaggregation": divides}
        )
    except ValidationError as invalid:
        sentences = [
            sentence.replace(f"{dotted(_PLACE)}.", "")
            for error in invalid.errors(include_url=False)
            for sentence in sentences_of({**error, "loc": (*_PLACE, *error["loc"])}, {})
        ]
        raise SettingsError([f"{path}: {sentence}" for sentence in sentences]) from None
    return model.workers


def _data(content: bytes, path: Path) -> Any:
    try:
        text = content.decode()
    except UnicodeDecodeError as fault:
        raise SettingsError([f"{path} is not UTF-8 text (byte {fault.start + 1})."]) from None
    try:
        # YAML's own reader takes JSON too, but not when it is indented with tabs.
        return json.loads(text) if path.suffix == ".json" else parse(text)
    except json.JSONDecodeError as fault:
        raise SettingsError(
            [f"{path} is not valid JSON: line {fault.lineno}, column {fault.colno}: {fault.msg}."]
        ) from None
    except yaml.YAMLError as fault:
        raise SettingsError([f"{path} is not valid YAML: {where_and_why(fault, text)}."]) from None
    except RecursionError:
        raise SettingsError([f"{path} is nested too deeply."]) from None
