"""Settings for traces, taken from OpenTelemetry's ``OTEL_*`` variables if ``tracing.otel_environment`` is true.

Names and formats: https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/ and
https://opentelemetry.io/docs/specs/otel/protocol/exporter/.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from gateway.settings.variables import Override

_EXPORTER: Final = "OTEL_EXPORTER_OTLP_"
_PATH: Final = "/v1/traces"
_SAMPLERS: Final = {
    "always_on": 1.0,
    "parentbased_always_on": 1.0,
    "always_off": 0.0,
    "parentbased_always_off": 0.0,
    "traceidratio": None,
    "parentbased_traceidratio": None,
}
"""Share of requests that each sampler traces. None stands for the number in ``OTEL_TRACES_SAMPLER_ARG``."""


def otel_defaults(data: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[list[Override], list[str]]:
    """Return the settings from ``OTEL_*`` variables that *data* does not set, and error messages for invalid variables.

    Nothing is returned unless ``tracing.otel_environment`` is true, or if ``OTEL_SDK_DISABLED`` is true.
    """
    given = data.get("tracing")
    if not isinstance(given, dict) or given.get("otel_environment") is not True:
        return [], []
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return [], []
    found, sentences = [], []
    for name, variable, value in _settings(environ):
        if isinstance(value, _Fault):
            sentences.append(f"{variable} {value}.")
        elif name and given.get(name) is None:
            found.append(Override(("tracing", name), variable, value))
    return found, sentences


class _Fault(str):
    """Description of a fault in an environment variable. In an error message, it follows the name of the variable."""

    __slots__ = ()


def _settings(environ: Mapping[str, str]) -> Iterator[tuple[str, str, Any]]:
    """Yield setting, variable and value for each variable that is set. Raise `_Fault` if the value cannot be used."""
    protocol, text = _exporter(environ, "PROTOCOL")
    if text not in ("", "http/protobuf"):
        yield "", protocol, _Fault("must be http/protobuf, which is the only protocol that the gateway sends")
    yield from _endpoint(environ)
    variable, text = _exporter(environ, "HEADERS")
    if text:
        yield "headers", variable, _pairs(text)
    variable, text = _exporter(environ, "TIMEOUT")
    if text:
        milliseconds = _number(text)
        yield "timeout_s", variable, milliseconds if isinstance(milliseconds, _Fault) else milliseconds / 1000
    variable = "OTEL_RESOURCE_ATTRIBUTES"
    attributes = _pairs(environ.get(variable, ""))
    if isinstance(attributes, _Fault):
        yield "", variable, attributes
        attributes = {}
    name = environ.get("OTEL_SERVICE_NAME") or attributes.pop("service.name", "")
    if name:
        yield "service_name", "OTEL_SERVICE_NAME", name
    if attributes:
        yield "resource", variable, attributes
    yield from _ratio(environ)


def _endpoint(environ: Mapping[str, str]) -> Iterator[tuple[str, str, Any]]:
    whole = f"{_EXPORTER}TRACES_ENDPOINT"
    if address := environ.get(whole, ""):
        fits = address.endswith(_PATH)
        yield "endpoint", whole, address.removesuffix(_PATH) if fits else _Fault(f"must end in {_PATH}")
    elif base := environ.get(f"{_EXPORTER}ENDPOINT", ""):
        yield "endpoint", f"{_EXPORTER}ENDPOINT", base.rstrip("/")


def _ratio(environ: Mapping[str, str]) -> Iterator[tuple[str, str, Any]]:
    variable = "OTEL_TRACES_SAMPLER"
    sampler = environ.get(variable, "")
    if not sampler:
        return
    if sampler not in _SAMPLERS:
        yield "", variable, _Fault(f"must be one of {', '.join(_SAMPLERS)}")
        return
    share = _SAMPLERS[sampler]
    yield "ratio", variable, _number(environ.get(f"{variable}_ARG") or "1") if share is None else share


def _exporter(environ: Mapping[str, str], name: str) -> tuple[str, str]:
    """Return the variable for traces or, if it is not set, the variable for all signals, with its text."""
    for variable in (f"{_EXPORTER}TRACES_{name}", f"{_EXPORTER}{name}"):
        if environ.get(variable):
            return variable, environ[variable]
    return f"{_EXPORTER}{name}", ""


def _pairs(text: str) -> dict[str, str] | _Fault:
    """Return the pairs in ``key=value,key=value``, with their percent-encoding removed."""
    found = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            return _Fault("must have the form key=value,key=value")
        found[unquote(key.strip())] = unquote(value.strip())
    return found


def _number(text: str) -> float | _Fault:
    try:
        return float(text)
    except ValueError:
        return _Fault("must be a number")
