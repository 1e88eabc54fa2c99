"""Settings from environment variables: the gateway's own variables and, as defaults, those of AWS and Kubernetes."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from gateway.protocol.field_names import Place
from gateway.settings.faults import unknown_variable
from gateway.settings.fields import annotation_at, is_optional, is_text, type_name
from gateway.settings.names import PREFIX, place_of
from gateway.settings.yaml_file import parse

# Kubernetes puts the addresses of every Service of the namespace into each pod; a Service called warmgate or
# warmgate-... gives names that begin like ours (https://kubernetes.io/docs/concepts/services-networking/service/).
# <SERVICE>_PORT alone is one of them only if it holds an address: as a number it is somebody's mistake.
_SERVICE_LINK = re.compile(r"(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)")

_AWS: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("bedrock", "region"): ("AWS_REGION", "AWS_DEFAULT_REGION"),
    ("bedrock", "endpoint_url"): ("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_ENDPOINT_URL"),
    ("bedrock", "bearer_token"): ("AWS_BEARER_TOKEN_BEDROCK",),
}


@dataclass(frozen=True, slots=True)
class Override:
    """Value for the setting at *place* from the environment variable *variable*."""

    place: Place
    variable: str
    value: Any


def overrides(environ: Mapping[str, str], others: Collection[str] = frozenset()) -> tuple[list[Override], list[str]]:
    """Return the settings in ``WARMGATE_*`` variables, and an error message for each invalid variable.

    The settings are sorted by place, outer groups and low list indexes first. *others* are variables to ignore.
    """
    found: list[Override] = []
    sentences: list[str] = []
    for variable, text in sorted(environ.items()):
        if not variable.startswith(PREFIX) or variable in others or _is_service_link(variable, text):
            continue
        place = place_of(variable)
        annotation = annotation_at(place)
        if annotation is None:
            sentences.append(unknown_variable(variable))
            continue
        try:
            found.append(Override(place, variable, _value(text, annotation)))
        except yaml.YAMLError:
            sentences.append(f"{variable} is not a YAML value; the value must be of type {type_name(annotation)}.")
    return sorted(found, key=lambda override: override.place), sentences


def aws_defaults(data: Mapping[str, Any], environ: Mapping[str, str]) -> list[Override]:
    """Return the settings in the variables of AWS's own tools, except those that *data* already sets."""
    found = []
    for (group, name), variables in _AWS.items():
        given = data.get(group)
        if given is not None and (not isinstance(given, dict) or given.get(name) is not None):
            continue
        variable = next((variable for variable in variables if environ.get(variable)), None)
        if variable is not None:
            found.append(Override((group, name), variable, environ[variable]))
    return found


def cluster_default(data: Mapping[str, Any], environ: Mapping[str, str]) -> list[Override]:
    """Return the API server's address, which Kubernetes sets in every pod, unless *data* already sets an address.

    This address works without DNS, unlike the name ``kubernetes.default.svc``.
    """
    given, host = data.get("kubernetes"), environ.get("KUBERNETES_SERVICE_HOST")
    if not host or (given is not None and (not isinstance(given, dict) or given.get("api_url") is not None)):
        return []
    port = environ.get("KUBERNETES_SERVICE_PORT_HTTPS") or environ.get("KUBERNETES_SERVICE_PORT") or "443"
    url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return [Override(("kubernetes", "api_url"), "KUBERNETES_SERVICE_HOST", url)]


def _is_service_link(variable: str, text: str) -> bool:
    rest = variable.removeprefix(PREFIX)
    if "__" in rest:
        return False
    return bool(_SERVICE_LINK.fullmatch(rest)) or (rest.endswith("PORT") and "://" in text)


def _value(text: str, annotation: Any) -> Any:
    """Return the value of a setting from *text*. Settings of type text use it unchanged, others parse it as YAML."""
    if not is_text(annotation):
        return parse(text)
    return None if is_optional(annotation) and text in ("", "~", "null") else text
