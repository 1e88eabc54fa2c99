"""Nodes for engines and gateways, by a Karpenter of one's own and by EKS Auto Mode."""

import string
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy import schemas

FOLDER = Path(__file__).parents[2] / "deploy" / "eks" / "karpenter"
FLAVOURS = {"self-managed": "karpenter.k8s.aws", "auto-mode": "eks.amazonaws.com"}
VALUES = {"CLUSTER_NAME": "prod", "NODE_ROLE": "prod-node", "BOTTLEROCKET_VERSION": "v1.44.0"}

# Of Auto Mode's NodeClass there is no schema to be had. These are the fields of "Create a Node Class for Amazon EKS" in
# the user guide that we use, and what each of them holds.
AUTO_MODE_FIELDS: dict[str, type] = {
    "role": str,
    "subnetSelectorTerms": list,
    "securityGroupSelectorTerms": list,
    "networkPolicy": str,
    "ephemeralStorage": dict,
}


def resources(path: str) -> list[dict[str, Any]]:
    """Those of a file, with everything filled in."""
    text = (FOLDER / path).read_text(encoding="utf-8")
    return list(yaml.safe_load_all(string.Template(text).substitute(VALUES)))


def pool(path: str) -> dict[str, Any]:
    (found,) = (each for each in resources(path) if each["kind"] == "NodePool")
    return found


def node_class(path: str) -> dict[str, Any]:
    (found,) = (each for each in resources(path) if each["kind"] != "NodePool")
    return found


def allowed(node_pool: dict[str, Any], end_of_key: str) -> set[str]:
    requirements = node_pool["spec"]["template"]["spec"]["requirements"]
    (found,) = (each for each in requirements if each["key"].endswith(end_of_key))
    return set(found["values"])


files = pytest.mark.parametrize("path", [f"{flavour}/{kind}.yaml" for flavour in FLAVOURS for kind in ("gpu", "cpu")])
gpu_files = pytest.mark.parametrize("path", [f"{flavour}/gpu.yaml" for flavour in FLAVOURS])
cpu_files = pytest.mark.parametrize("path", [f"{flavour}/cpu.yaml" for flavour in FLAVOURS])


@files
def test_karpenter_takes_them(path: str) -> None:
    schemas.check_others(resources(path))


def test_a_wrong_field_would_be_noticed() -> None:
    """The schemas are not so lenient that anything goes."""
    wrong = pool("self-managed/gpu.yaml")
    wrong["spec"]["disruption"]["consolidationPolicy"] = "Never"

    with pytest.raises(AssertionError):
        schemas.check_others([wrong])


@pytest.mark.parametrize("kind", ["gpu", "cpu"])
def test_auto_modes_node_class_has_the_fields_of_the_user_guide(kind: str) -> None:
    found = node_class(f"auto-mode/{kind}.yaml")

    assert ("eks.amazonaws.com/v1", "NodeClass") == (found["apiVersion"], found["kind"])
    assert set() == found["spec"].keys() - AUTO_MODE_FIELDS.keys()
    assert all(isinstance(value, AUTO_MODE_FIELDS[field]) for field, value in found["spec"].items())
    assert set() == found["spec"]["ephemeralStorage"].keys() - {"size", "iops", "throughput", "kmsKeyID"}
    assert found["spec"]["networkPolicy"] in {"DefaultAllow", "DefaultDeny"}


@files
def test_a_pool_names_the_node_class_beside_it(path: str) -> None:
    (kind,) = (each for each in resources(path) if each["kind"] != "NodePool")
    reference = pool(path)["spec"]["template"]["spec"]["nodeClassRef"]
    flavour = path.partition("/")[0]

    assert FLAVOURS[flavour] == reference["group"]
    assert kind["apiVersion"].partition("/")[0] == reference["group"]
    assert (kind["kind"], kind["metadata"]["name"]) == (reference["kind"], reference["name"])


@files
def test_requirements_have_the_keys_of_their_flavour(path: str) -> None:
    """Auto Mode does not know Karpenter's own keys for instances, nor Karpenter Auto Mode's."""
    group = FLAVOURS[path.partition("/")[0]]
    keys = [each["key"] for each in pool(path)["spec"]["template"]["spec"]["requirements"]]

    assert {group, "kubernetes.io", "karpenter.sh"} == {key.partition("/")[0] for key in keys}


@files
def test_a_pool_has_a_limit(path: str) -> None:
    """Without one, a mistake in an autoscaler has none either."""
    assert pool(path)["spec"]["limits"]


@gpu_files
def test_only_pods_that_ask_for_a_gpu_get_onto_its_nodes(path: str) -> None:
    """The gateway has no toleration for this taint."""
    taint = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}

    assert [taint] == pool(path)["spec"]["template"]["spec"]["taints"]


@gpu_files
def test_no_node_goes_that_has_an_engine_on_it(path: str) -> None:
    """Its cache is warm: only empty nodes are taken away."""
    disruption = pool(path)["spec"]["disruption"]
    budgets = {reason: budget["nodes"] for budget in disruption["budgets"] for reason in budget["reasons"]}

    assert "WhenEmpty" == disruption["consolidationPolicy"]
    assert {"Empty": "100%", "Underutilized": "0", "Drifted": "0"} == budgets


@gpu_files
def test_what_is_reserved_and_spot_come_before_what_costs_most(path: str) -> None:
    """Karpenter takes the cheapest of those that are allowed."""
    assert {"reserved", "spot", "on-demand"} == allowed(pool(path), "capacity-type")


@cpu_files
def test_gateways_are_not_on_spot(path: str) -> None:
    """A gateway's streams end with it."""
    assert {"on-demand"} == allowed(pool(path), "capacity-type")


@cpu_files
def test_a_node_with_a_gateway_waits_for_longer_than_a_gateway_takes_to_stop(path: str) -> None:
    """The default of shutdown_grace_s is 30 s, the longest request takes timeouts.total_s: 30 minutes."""
    assert "30m" == pool(path)["spec"]["template"]["spec"]["terminationGracePeriod"]


@pytest.mark.parametrize("kind", ["gpu", "cpu"])
def test_a_node_of_ones_own_gives_pods_no_role(kind: str) -> None:
    """The node's metadata cannot be reached from pods: what they may do is in Pod Identity."""
    options = node_class(f"self-managed/{kind}.yaml")["spec"]["metadataOptions"]

    assert {"httpTokens": "required", "httpPutResponseHopLimit": 1} == options


def test_the_gpu_operator_brings_nothing_that_is_there() -> None:
    """Driver, toolkit and device plugin are part of the nodes of both flavours."""
    values = yaml.safe_load((FOLDER / "gpu-operator-values.yaml").read_text(encoding="utf-8"))

    assert {"driver", "toolkit", "devicePlugin"} == {
        name for name, value in values.items() if value.get("enabled") is False
    }
    assert values["gfd"]["enabled"]
    assert values["dcgmExporter"]["enabled"]
