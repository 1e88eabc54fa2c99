"""Settings for the discovery of workers, in Kubernetes or by DNS."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from gateway.protocol.field_types import Group, Url
from gateway.settings.disaggregation import RoleName
from gateway.settings.rules import TEXT_OR_NUMBER, FileName, HostName, LabelSelector, ObjectName, Positive, port_name


def _as_text(value: Any) -> Any:
    """Return *value* as text if it is a port number that was written without quotes."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


PortName = Annotated[str, BeforeValidator(_as_text), AfterValidator(port_name), WithJsonSchema(TEXT_OR_NUMBER)]


class ServiceSettings(Group):
    name: ObjectName = Field(description="name of the Kubernetes Service whose endpoints are workers")
    namespace: ObjectName | None = Field(
        default=None, description="namespace of the Kubernetes Service. Null means kubernetes.namespace."
    )
    port: PortName | None = Field(
        default=None,
        description="name or number of the Service port on the pods. Null means the pods' only port.",
    )
    role: RoleName = Field(default="both", description="role of the workers in the Service: both, prefill or decode")
    ranks: int = Field(
        default=1,
        ge=0,
        le=1024,
        description="number of data-parallel ranks of each worker. With 0, the gateway asks the engines.",
    )


class PodsSettings(Group):
    selector: LabelSelector = Field(
        description="label selector of the pods that are workers, e.g. app=vllm,model=llama"
    )
    namespace: ObjectName | None = Field(
        default=None, description="namespace of the pods. Null means kubernetes.namespace."
    )
    port: PortName | None = Field(
        default=None,
        description="name or number of the container port that serves the model. Null means the only port of the "
        "container.",
    )


class InferencePoolSettings(Group):
    name: ObjectName = Field(
        description="name of the InferencePool whose endpoints are workers. Each target port of each pod is a worker."
    )
    namespace: ObjectName | None = Field(
        default=None, description="namespace of the InferencePool and its pods. Null means kubernetes.namespace."
    )
    objectives: bool = Field(
        default=False,
        description="let callers name an InferenceObjective (llm-d.ai/v1alpha2) of the pool in the header "
        "x-llm-d-inference-objective. Its priority is high above 0, low below 0 and normal otherwise. For callers with "
        "keys, it can only lower the priority.",
    )
    rewrites: bool = Field(
        default=False,
        description="let InferenceModelRewrites (llm-d.ai/v1alpha2) of the pool replace the model names of requests, "
        "by weight. Callers need the permission for the model that replaces the name.",
    )


class DnsSettings(Group):
    name: HostName = Field(description="DNS name whose addresses are workers, e.g. the name of a headless Service")
    port: int = Field(ge=1, le=65535, description="port of all workers that the DNS name resolves to")
    interval_s: Positive = Field(default=5, description="seconds between two DNS lookups")
    role: RoleName = Field(
        default="both", description="role of the workers that the DNS name resolves to: both, prefill or decode"
    )
    ranks: int = Field(
        default=1,
        ge=0,
        le=1024,
        description="number of data-parallel ranks of each worker. With 0, the gateway asks the engines.",
    )


class KubernetesSettings(Group):
    api_url: Url | None = Field(
        default=None,
        description="URL of the Kubernetes API server. Null means the API server of the cluster that the gateway "
        "runs in.",
    )
    token_file: FileName | None = Field(
        default=None,
        description="file with the bearer token for the Kubernetes API server, reread for each request. Null "
        "means the token of the gateway's service account.",
    )
    ca_file: FileName | None = Field(
        default=None,
        description="file with the CA certificates of the Kubernetes API server. Null means the certificates of "
        "the gateway's service account.",
    )
    namespace: ObjectName | None = Field(
        default=None, description="default namespace for services and pods. Null means the namespace of the gateway."
    )
    relist_s: Positive = Field(
        default=30,
        description="seconds between two complete lists of the watched Kubernetes objects. Each list corrects "
        "changes that the watch missed.",
    )
    watch_s: Positive = Field(default=240, description="maximum seconds that one Kubernetes watch request stays open")
