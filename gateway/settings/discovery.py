"""The groups of settings for workers that are found: in Kubernetes, or by a name in DNS."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from gateway.settings.disaggregation import RoleName
from gateway.settings.group import Group
from gateway.settings.rules import (
    TEXT_OR_NUMBER,
    FileName,
    HostName,
    LabelSelector,
    ObjectName,
    Positive,
    Url,
    port_name,
)


def _as_text(value: Any) -> Any:
    """A port's number may be written without quotes."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


PortName = Annotated[str, BeforeValidator(_as_text), AfterValidator(port_name), WithJsonSchema(TEXT_OR_NUMBER)]


class ServiceSettings(Group):
    name: ObjectName = Field(description="Service in Kubernetes whose endpoints are workers")
    namespace: ObjectName | None = Field(default=None, description="where it is; null: kubernetes.namespace")
    port: PortName | None = Field(
        default=None, description="name or number of the port of its pods; null: the only one that they have"
    )
    role: RoleName = Field(default="both", description="what its workers do: both, prefill or decode")
    ranks: int = Field(
        default=1, ge=0, le=1024, description="data-parallel ranks of each, as workers have them; 0: engines are asked"
    )


class PodsSettings(Group):
    selector: LabelSelector = Field(description="labels of the pods that are workers, e.g. app=vllm,model=llama")
    namespace: ObjectName | None = Field(default=None, description="where they are; null: kubernetes.namespace")
    port: PortName | None = Field(
        default=None, description="name or number of the container's port; null: the only one that they have"
    )


class DnsSettings(Group):
    name: HostName = Field(description="name whose addresses are workers, e.g. of a headless Service")
    port: int = Field(ge=1, le=65535, description="port of all of them")
    interval_s: Positive = Field(default=5, description="time between two questions")
    role: RoleName = Field(default="both", description="what its workers do: both, prefill or decode")
    ranks: int = Field(
        default=1, ge=0, le=1024, description="data-parallel ranks of each, as workers have them; 0: engines are asked"
    )


class KubernetesSettings(Group):
    api_url: Url | None = Field(
        default=None, description="address of the API server; null: that of the cluster that the gateway runs in"
    )
    token_file: FileName | None = Field(
        default=None, description="file with the bearer token, read anew each time; null: that of the service account"
    )
    ca_file: FileName | None = Field(
        default=None, description="certificates that the API server is known by; null: those of the service account"
    )
    namespace: ObjectName | None = Field(
        default=None, description="where services and pods are that name none; null: the gateway's own"
    )
    relist_s: Positive = Field(
        default=30, description="everything is listed anew this often, whatever was watched: the most that is missed"
    )
    watch_s: Positive = Field(default=240, description="longest time that a watch is left open")
