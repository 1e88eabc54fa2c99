"""The groups of settings for workers that are found: in Kubernetes, or by a name in DNS."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from gateway.protocol.field_types import Group, Url
from gateway.settings.disaggregation import RoleName
from gateway.settings.rules import TEXT_OR_NUMBER, FileName, HostName, LabelSelector, ObjectName, Positive, port_name


def _as_text(value: Any) -> Any:
    """A port's number may be written without quotes."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


PortName = Annotated[str, BeforeValidator(_as_text), AfterValidator(port_name), WithJsonSchema(TEXT_OR_NUMBER)]


class ServiceSettings(Group):
    name: ObjectName = Field(description="Kubernetes Service whose endpoints are workers")
    namespace: ObjectName | None = Field(
        default=None, description="namespace of the Service; null: kubernetes.namespace"
    )
    port: PortName | None = Field(default=None, description="name or number of the pods' port; null: their only port")
    role: RoleName = Field(default="both", description="role of its workers: both, prefill or decode")
    ranks: int = Field(default=1, ge=0, le=1024, description="data-parallel ranks of each worker; 0: ask the engines")


class PodsSettings(Group):
    selector: LabelSelector = Field(description="labels of the pods that are workers, e.g. app=vllm,model=llama")
    namespace: ObjectName | None = Field(default=None, description="namespace of the pods; null: kubernetes.namespace")
    port: PortName | None = Field(
        default=None, description="name or number of the container's port; null: its only port"
    )


class DnsSettings(Group):
    name: HostName = Field(description="DNS name whose addresses are workers, e.g. of a headless Service")
    port: int = Field(ge=1, le=65535, description="port of all workers")
    interval_s: Positive = Field(default=5, description="time between DNS lookups")
    role: RoleName = Field(default="both", description="role of its workers: both, prefill or decode")
    ranks: int = Field(default=1, ge=0, le=1024, description="data-parallel ranks of each worker; 0: ask the engines")


class KubernetesSettings(Group):
    api_url: Url | None = Field(
        default=None, description="address of the API server; null: the cluster in which the gateway runs"
    )
    token_file: FileName | None = Field(
        default=None, description="file with the bearer token, reread each time; null: the service account's token"
    )
    ca_file: FileName | None = Field(
        default=None, description="CA certificates for the API server; null: the service account's certificates"
    )
    namespace: ObjectName | None = Field(
        default=None, description="default namespace of services and pods; null: the gateway's namespace"
    )
    relist_s: Positive = Field(default=30, description="time between two complete lists, which correct missed events")
    watch_s: Positive = Field(default=240, description="longest time that one watch stays open")
