"""Read settings from one YAML file, and from `WARMGATE_*` environment variables that override the file.

Only this module reads environment variables. All other modules get plain values.
"""

import copy
import os
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from gateway.protocol.field_names import Place, dotted
from gateway.settings.faults import SettingsError, kind_of, sentences_of
from gateway.settings.models import unpriced_fallbacks
from gateway.settings.otel_variables import otel_defaults
from gateway.settings.removed import REMOVED_VARIABLES, take_removed
from gateway.settings.renamed import take_renamed
from gateway.settings.schema import Settings
from gateway.settings.secret_variables import reserved, resolve
from gateway.settings.variables import aws_defaults, cluster_default, overrides
from gateway.settings.yaml_file import read


def environment() -> Mapping[str, str]:
    """Return the environment variables of this process."""
    return os.environ


def load(path: Path | None, environ: Mapping[str, str], *, warn: Callable[[str], object] | None = None) -> Settings:
    """Return the settings in the file at *path*, if any, overridden by the `WARMGATE_*` variables in *environ*.

    *warn* is called with a warning for each setting that is deprecated or has no effect.

    Raises:
        SettingsError: if the settings are invalid, with an error message for each fault.
    """
    return build({} if path is None else read(path), environ, warn=warn)


def build(
    data: Mapping[str, Any], environ: Mapping[str, str], *, warn: Callable[[str], object] | None = None
) -> Settings:
    """Return the settings in *data* (the content of a settings file), overridden by the `WARMGATE_*` variables in
    *environ*.

    *warn* is called with a warning for each setting that is deprecated or has no effect.

    Raises:
        SettingsError: if the settings are invalid, with an error message for each fault.
    """
    merged: dict[str, Any] = copy.deepcopy(dict(data))
    origins: dict[Place, str] = {}
    warnings, faults = take_removed(merged, environ)
    environ, renamed, twice = take_renamed(merged, environ)
    warnings += renamed
    faults += twice
    ours, sentences = overrides(environ, reserved(merged, environ) | REMOVED_VARIABLES)
    sentences += faults
    for override in ours:
        fault = _put(merged, override.place, override.value)
        if fault is None:
            origins[override.place] = override.variable
        else:
            sentences.append(f"{override.variable} {fault}.")
    found, missing = resolve(merged, environ)
    origins |= found
    sentences += missing
    traced, unfit = otel_defaults(merged, environ)
    sentences += unfit
    for override in (*aws_defaults(merged, environ), *cluster_default(merged, environ), *traced):
        _put(merged, override.place, override.value)
        origins[override.place] = override.variable
    try:
        settings = Settings.model_validate(merged)
    except ValidationError as invalid:
        errors = invalid.errors(include_url=False)
        sentences += [sentence for error in errors for sentence in sentences_of(error, origins)]
        raise SettingsError(sentences) from None
    if sentences:
        raise SettingsError(sentences)
    if warn is not None:
        for warning in (*warnings, *unpriced_fallbacks(settings.models)):
            warn(warning)
    return settings


def masked(settings: Settings) -> str:
    """Return the settings in effect as YAML, with every secret replaced by ``**********``."""
    data = settings.model_dump(mode="json")
    if data["store"]["url"] is not None:
        data["store"]["url"] = _password.sub("**********", data["store"]["url"])
    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    return text


_password = re.compile(r"(?<=://)[^@/?]*(?=@)|(?<=password=)[^&]*")
"""Pattern for the password in a Redis URL, which is in front of the host or in an option."""


def _put(data: dict[str, Any], place: Place, value: Any) -> str | None:
    """Set *value* at *place* in *data*, and create missing groups. Return the reason if this is impossible, or None."""
    node: Any = data
    for depth, (step, following) in enumerate(pairwise(place), start=1):
        child = _child(node, step)
        if child is None:
            child = [] if isinstance(following, int) else {}
            if not _attach(node, step, child):
                return _gap(place[:depth], node)
        if not isinstance(child, list if isinstance(following, int) else dict):
            return f"cannot be used: {dotted(place[:depth])} is {kind_of(child)}"
        node = child
    return None if _attach(node, place[-1], value) else _gap(place, node)


def _child(node: Any, step: str | int) -> Any:
    if isinstance(node, dict):
        return node.get(step)
    return node[step] if int(step) < len(node) else None


def _attach(node: Any, step: str | int, value: Any) -> bool:
    if isinstance(node, dict) or int(step) < len(node):
        node[step] = value
    elif int(step) == len(node):
        node.append(value)
    else:
        return False
    return True


def _gap(place: Place, node: list[Any]) -> str:
    return f"leaves a gap: {dotted(place[:-1])} has {len(node)} entries, so the next number is {len(node)}"
