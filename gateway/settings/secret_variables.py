"""Secrets in environment variables whose names are given in ``secret_env`` settings."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gateway.protocol.field_names import Place, dotted
from gateway.settings.names import PREFIX

CLIENTS = frozenset({"WARMGATE_ADMIN_KEY", "WARMGATE_ADMIN_URL", "WARMGATE_API_KEY", "WARMGATE_KEY", "WARMGATE_URL"})
"""Environment variables of clients of the gateway. They are not settings, although they begin with ``WARMGATE_``."""
_NAMING = re.compile(rf"{PREFIX}\w+__SECRET_ENV")
_USUAL = re.compile(r"[A-Z_][A-Z0-9_]*")
"""Pattern for common names of variables, which almost no secret matches."""


def reserved(data: Any, environ: Mapping[str, str]) -> frozenset[str]:
    """Return the ``WARMGATE_*`` variables that hold secrets or belong to clients instead of settings."""
    named = {str(group["secret_env"]) for _, group in _naming(data)}
    named |= {value for name, value in environ.items() if _NAMING.fullmatch(name)}
    return CLIENTS | named


def resolve(data: Any, environ: Mapping[str, str]) -> tuple[dict[Place, str], list[str]]:
    """Insert the secrets into those groups of *data* that name an environment variable.

    Returns the variable of each inserted secret, by its place, and an error message for each missing secret.
    """
    origins: dict[Place, str] = {}
    sentences: list[str] = []
    for place, group in _naming(data):
        variable = group["secret_env"]
        if group.get("secret") is not None or group.get("secret_sha256") is not None:
            sentences.append(f"{dotted((*place, 'secret_env'))} cannot be combined with another secret of the key.")
        elif not environ.get(variable):
            sentences.append(f"{dotted((*place, 'secret_env'))} names {_shown(variable)}, which is not set.")
        else:
            group["secret"] = environ[variable]
            origins[(*place, "secret")] = variable
    return origins, sentences


def _shown(variable: str) -> str:
    """Return *variable* for an error message, or a placeholder if it could be the secret itself."""
    return variable if _USUAL.fullmatch(variable) else "a variable"


def _naming(data: Any, place: Place = ()) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield each group in *data* that names an environment variable for a secret, with the group's place."""
    if isinstance(data, dict):
        if isinstance(data.get("secret_env"), str):
            yield place, data
        for name, value in data.items():
            yield from _naming(value, (*place, name))
    elif isinstance(data, list):
        for number, value in enumerate(data):
            yield from _naming(value, (*place, number))
