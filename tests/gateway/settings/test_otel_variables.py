from typing import Any

import pytest

from gateway.settings import SettingsError
from gateway.settings.otel_variables import otel_defaults
from gateway.settings.source import build

ON = {"tracing": {"otel_environment": True}}
BASE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318/"}


def found(environ: dict[str, str], **tracing: Any) -> dict[str, Any]:
    overrides, sentences = otel_defaults({"tracing": {"otel_environment": True, **tracing}}, environ)
    assert [] == sentences
    return {str(override.place[1]): override.value for override in overrides}


@pytest.mark.parametrize("data", [{}, {"tracing": {}}, {"tracing": {"otel_environment": False}}, {"tracing": None}])
def test_variables_count_only_if_a_setting_says_so(data: dict[str, Any]) -> None:
    assert ([], []) == otel_defaults(data, BASE)


def test_the_sdk_may_be_disabled() -> None:
    assert {} == found({**BASE, "OTEL_SDK_DISABLED": "TRUE"})


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (BASE, {"endpoint": "http://collector:4318"}),
        ({**BASE, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t:1/v1/traces"}, {"endpoint": "http://t:1"}),
        (
            {"OTEL_EXPORTER_OTLP_HEADERS": "x-a=1, authorization=Bearer%20t"},
            {"headers": {"x-a": "1", "authorization": "Bearer t"}},
        ),
        ({"OTEL_EXPORTER_OTLP_TIMEOUT": "2500"}, {"timeout_s": 2.5}),
        ({"OTEL_SERVICE_NAME": "gate"}, {"service_name": "gate"}),
        (
            {"OTEL_RESOURCE_ATTRIBUTES": "service.name=gate,deployment.environment.name=test"},
            {"service_name": "gate", "resource": {"deployment.environment.name": "test"}},
        ),
        ({"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"}, {"ratio": 0.1}),
        ({"OTEL_TRACES_SAMPLER": "always_off"}, {"ratio": 0.0}),
    ],
)
def test_a_variable_fills_its_setting(environ: dict[str, str], expected: dict[str, Any]) -> None:
    assert expected == found(environ)


def test_a_setting_comes_before_its_variable() -> None:
    assert {} == found(BASE, endpoint="http://other:4318")


@pytest.mark.parametrize(
    ("variable", "text", "sentence"),
    [
        (
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "grpc",
            "must be http/protobuf, which is the only protocol that the gateway sends",
        ),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:1/traces", "must end in /v1/traces"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "secret", "must have the form key=value,key=value"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "must be a number"),
        ("OTEL_RESOURCE_ATTRIBUTES", "=x", "must have the form key=value,key=value"),
        ("OTEL_TRACES_SAMPLER", "xray", "must be one of always_on, "),
    ],
)
def test_a_variable_that_cannot_be_used_is_named_without_its_value(variable: str, text: str, sentence: str) -> None:
    _, sentences = otel_defaults(ON, {variable: text})

    assert 1 == len(sentences)
    assert sentences[0].startswith(f"{variable} {sentence}")
    assert "secret" not in sentences[0]


def test_the_settings_in_effect_have_the_values() -> None:
    data = {"models": [{"name": "tiny", "workers": [{"url": "http://a"}]}], **ON}

    assert "http://collector:4318" == build(data, BASE).tracing.endpoint
    with pytest.raises(SettingsError, match="OTEL_TRACES_SAMPLER must be one of"):
        build(data, {"OTEL_TRACES_SAMPLER": "xray"})
