"""The schemas that manifests are held against do refuse something."""

from typing import Any

import kubernetes_validate
import pytest

from tests.deploy import schemas


def test_an_unknown_field_is_refused() -> None:
    """The usual fault: Kubernetes would drop it without a word."""
    manifest = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "a"},
        "spec": {"ports": [{"port": 80}], "trafficDistributon": "PreferClose"},
    }

    with pytest.raises(kubernetes_validate.ValidationError, match="trafficDistributon"):
        schemas.check([manifest], "1.33")


@pytest.mark.parametrize(
    ("manifest", "reported"),
    [
        (
            {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "spec": {"triggers": []}},
            "must have required property scaleTargetRef",
        ),
        (
            {"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor", "spec": {"endpoints": "http"}},
            "/endpoints",
        ),
        ({"apiVersion": "keda.sh/v2", "kind": "ScaledObject"}, "v2"),
        ({"apiVersion": "example.com/v1", "kind": "Thing"}, "no schema for example.com/v1"),
    ],
)
def test_what_operators_would_refuse_is_refused(manifest: dict[str, Any], reported: str) -> None:
    with pytest.raises(schemas.Refused, match=reported):
        schemas.check_others([{"metadata": {"name": "a"}, **manifest}])
