"""Groups of settings for workers that are found."""

from typing import Any

import pytest

from gateway.settings import DnsSettings, KubernetesSettings, PodsSettings, ServiceSettings
from tests.gateway.settings.examples import SMALLEST, parsed, sentences, with_model


def test_a_model_may_have_workers_that_are_found_only() -> None:
    for source in ("service: {name: a}", "pods: {selector: a}", "dns: {name: a, port: 1}"):
        assert () == parsed(f"models: [{{name: tiny, {source}}}]").models[0].workers

    model = parsed(
        with_model(
            service={"name": "vllm", "port": 8000}, pods={"selector": "app=vllm"}, dns={"name": "a.b", "port": 1}
        )
    ).models[0]
    assert (
        ServiceSettings(name="vllm", port="8000"),
        PodsSettings(selector="app=vllm"),
        DnsSettings(name="a.b", port=1, interval_s=5),
    ) == (model.service, model.pods, model.dns)


@pytest.mark.parametrize(
    ("source", "reported"),
    [
        ({"service": {}}, "models[0].service.name is missing; it must be given."),
        (
            {"service": {"name": "Vllm"}},
            "models[0].service.name is 'Vllm'; "
            "the value must be a Kubernetes name: lower-case letters, digits, dots and "
            "dashes.",
        ),
        (
            {"service": {"name": "a", "port": 0}},
            "models[0].service.port is 0; the value must be a port between 1 and 65535.",
        ),
        (
            {"service": {"name": "a", "port": "70000"}},
            "models[0].service.port is '70000'; the value must be a port between 1 and 65535.",
        ),
        (
            {"pods": {"selector": "a", "port": "not_a_name"}},
            "models[0].pods.port is 'not_a_name'; the value must be a port number, or a name of at most 15 "
            "lower-case letters, digits and dashes.",
        ),
        (
            {"pods": {"selector": "a", "port": True}},
            "models[0].pods.port is True; the value must be text (write it in quotes).",
        ),
        (
            {"pods": {"selector": " "}},
            "models[0].pods.selector is ' '; the value must be a label selector such as app=vllm,model in (a, b).",
        ),
        ({"dns": {"name": "http://a", "port": 1}}, "models[0].dns.name is 'http://a'; the value must be a host name."),
        (
            {"dns": {"name": "a", "port": 1, "interval_s": 0}},
            "models[0].dns.interval_s is 0; the value must be greater than 0.",
        ),
    ],
)
def test_what_is_wrong_is_reported(source: dict[str, Any], reported: str) -> None:
    """In a sentence that names the setting."""
    assert [reported] == sentences(with_model(**source))


def test_ports_may_come_from_variables() -> None:
    """A number is text there too."""
    settings = parsed(with_model(service={"name": "a"}), WARMGATE_MODELS__0__SERVICE__PORT="8000")

    assert ServiceSettings(name="a", port="8000") == settings.models[0].service


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "https://10.0.0.1:443"),
        ({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}, "https://[fd00::1]:6443"),
        (
            {
                "KUBERNETES_SERVICE_HOST": "10.0.0.1",
                "KUBERNETES_SERVICE_PORT": "1",
                "KUBERNETES_SERVICE_PORT_HTTPS": "443",
            },
            "https://10.0.0.1:443",
        ),
        ({}, None),
    ],
)
def test_the_clusters_own_address_fills_what_is_unset(environ: dict[str, str], url: str | None) -> None:
    assert KubernetesSettings(api_url=url) == parsed(SMALLEST, **environ).kubernetes
    other = f"{SMALLEST}\nkubernetes: {{api_url: 'https://k:6443'}}"
    assert "https://k:6443" == parsed(other, **environ).kubernetes.api_url
