"""Fields of Kubernetes objects that the gateway reads: EndpointSlices, pods, and those about inference.

The formats are those of https://kubernetes.io/docs/reference/kubernetes-api/ (discovery.k8s.io/v1, v1) and of
https://gateway-api-inference-extension.sigs.k8s.io/reference/spec/ (inference.networking.k8s.io/v1). Those of
InferenceObjectives and InferenceModelRewrites are from llm-d (llm-d.ai/v1alpha2). Instead of an empty list, a field may
be missing or null.
"""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    """Time in RFC 3339, in UTC and with a fixed length, so that texts have the order of times."""
    deletion_timestamp: str | None = None
    labels: Mapping[str, str] | None = None
    annotations: Mapping[str, str] | None = None


class Conditions(msgspec.Struct, frozen=True):
    """Conditions of an endpoint. None means unknown, which counts as ready and as not terminating."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class TargetRef(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""


class SliceEndpoint(msgspec.Struct, frozen=True, rename="camel"):
    addresses: tuple[str, ...] | None = None
    conditions: Conditions = Conditions()
    target_ref: TargetRef | None = None
    zone: str | None = None


class Port(msgspec.Struct, frozen=True, rename="camel"):
    """Port of a pod in an EndpointSlice. It can be different from the port of the Service."""

    name: str | None = None
    port: int | None = None
    protocol: str | None = None
    app_protocol: str | None = None


class EndpointSlice(msgspec.Struct, frozen=True, rename="camel"):
    metadata: Metadata
    address_type: str = "IPv4"
    endpoints: tuple[SliceEndpoint, ...] | None = None
    ports: tuple[Port, ...] | None = None


class ContainerPort(msgspec.Struct, frozen=True, rename="camel"):
    container_port: int
    name: str = ""
    protocol: str = "TCP"


class Container(msgspec.Struct, frozen=True):
    ports: tuple[ContainerPort, ...] | None = None


class PodSpec(msgspec.Struct, frozen=True):
    containers: tuple[Container, ...] | None = None


class PodCondition(msgspec.Struct, frozen=True):
    type: str
    status: str


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    pod_ip: str | None = msgspec.field(default=None, name="podIP")
    conditions: tuple[PodCondition, ...] | None = None


class Pod(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PoolSelector(msgspec.Struct, frozen=True, rename="camel"):
    match_labels: Mapping[str, str] | None = None


class PoolPort(msgspec.Struct, frozen=True):
    number: int


class InferencePoolSpec(msgspec.Struct, frozen=True, rename="camel"):
    selector: PoolSelector = PoolSelector()
    target_ports: tuple[PoolPort, ...] | None = None
    """Ports of each pod. Each port is an endpoint of its own, such as one data-parallel rank."""
    app_protocol: str | None = None


class InferencePool(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: InferencePoolSpec = InferencePoolSpec()


class PoolReference(msgspec.Struct, frozen=True):
    name: str = ""
    group: str | None = None


class LabelRule(msgspec.Struct, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] | None = None


class LabelSelector(msgspec.Struct, frozen=True, rename="camel"):
    match_labels: Mapping[str, str] | None = None
    match_expressions: tuple[LabelRule, ...] | None = None


class InferenceObjectiveSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Priority of requests to InferencePools. The objective applies if a reference or the selector matches."""

    priority: int | None = None
    pool_ref: PoolReference | None = None
    pool_refs: tuple[PoolReference, ...] | None = None
    pool_selector: LabelSelector | None = None
    """Labels of pools. A selector without rules matches all pools of the namespace."""


class InferenceObjective(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: InferenceObjectiveSpec = InferenceObjectiveSpec()


class ModelName(msgspec.Struct, frozen=True):
    """Name of a model in requests. A missing type means Exact."""

    value: str
    type: str | None = None


class ModelMatch(msgspec.Struct, frozen=True):
    model: ModelName


class TargetModel(msgspec.Struct, frozen=True, rename="camel"):
    model_rewrite: str
    weight: int | None = None


class ModelRewriteRule(msgspec.Struct, frozen=True):
    """Models that replace the names in `matches`, or all names if it is empty."""

    matches: tuple[ModelMatch, ...] | None = None
    targets: tuple[TargetModel, ...] | None = None


class InferenceModelRewriteSpec(msgspec.Struct, frozen=True, rename="camel"):
    pool_ref: PoolReference | None = None
    rules: tuple[ModelRewriteRule, ...] | None = None


class InferenceModelRewrite(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: InferenceModelRewriteSpec = InferenceModelRewriteSpec()


Object: TypeAlias = EndpointSlice | Pod | InferencePool | InferenceObjective | InferenceModelRewrite
