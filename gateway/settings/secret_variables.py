"""Secrets that stand in variables of the environment, which the settings name with ``secret_env``."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gateway.protocol.field_names import Place, dotted
from gateway.settings.names import PREFIX

COMMANDS = frozenset({"WARMGATE_ADMIN_KEY", "WARMGATE_ADMIN_URL"})
"""Variables of commands that call a gateway; they are not settings, although they begin like them."""
_NAMING = re.compile(rf"{PREFIX}\w+__SECRET_ENV")
_USUAL = re.compile(r"[A-Z_][A-Z0-9_]*")
"""Names of variables, and hardly any secret."""


def reserved(data: Any, environ: Mapping[str, str]) -> frozenset[str]:
    """Return names that begin like variables of settings and hold secrets, by *data* and *environ*."""
    named = {str(group["secret_env"]) for _, group in _naming(data)}
    named |= {value for name, value in environ.items() if _NAMING.fullmatch(name)}
    return COMMANDS | named


def resolve(data: Any, environ: Mapping[str, str]) -> tuple[dict[Place, str], list[str]]:
    """Insert the secrets that *data* names.

    Returns the variable of every place that was set, and a sentence for every secret that is not there.
    """
    origins: dict[Place, str] = {}
    sentences: list[str] = []
    for place, group in _naming(data):
        variable = group["secret_env"]
        if group.get("secret") is not None or group.get("secret_sha256") is not None:
            sentences.append(f"{dotted((*place, 'secret_env'))} stands beside another secret; a key has one.")
        elif not environ.get(variable):
            sentences.append(f"{dotted((*place, 'secret_env'))} names {_shown(variable)}, which is not set.")
        else:
            group["secret"] = environ[variable]
            origins[(*place, "secret")] = variable
    return origins, sentences


def _shown(variable: str) -> str:
    """Return the name as a message may repeat it: an operator may have put the secret itself there."""
    return variable if _USUAL.fullmatch(variable) else "a variable"


def _naming(data: Any, place: Place = ()) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Every group that names a variable, with its path."""
    if isinstance(data, dict):
        if isinstance(data.get("secret_env"), str):
            yield place, data
        for name, value in data.items():
            yield from _naming(value, (*place, name))
    elif isinstance(data, list):
        for number, value in enumerate(data):
            yield from _naming(value, (*place, number))
