"""Fields of EndpointSlices, pods and InferencePools that the gateway reads.

The formats are those of https://kubernetes.io/docs/reference/kubernetes-api/ (discovery.k8s.io/v1, v1) and of
https://gateway-api-inference-extension.sigs.k8s.io/reference/spec/ (inference.networking.k8s.io/v1). Instead of an
empty list, a field may be missing or null.
"""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
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


Object: TypeAlias = EndpointSlice | Pod | InferencePool
