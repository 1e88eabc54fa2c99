"""Convert an InferencePool and its pods into workers.

For the fields of a pool see https://gateway-api-inference-extension.sigs.k8s.io/reference/spec/
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from gateway.workers.discovery.discovery import Discovery
from gateway.workers.discovery.found import Found
from gateway.workers.discovery.kubernetes import KubernetesDiscovery
from gateway.workers.discovery.pods import workers_at
from gateway.workers.discovery.pool_members import PoolMembers, PoolObject, selector_of
from gateway.workers.discovery.source import DiscoveryTools, OnRefused, WorkerSource
from gateway.workers.kubernetes.objects import InferencePool, Pod


@dataclass(frozen=True, slots=True)
class PoolSource:
    """InferencePool whose endpoints are workers."""

    kind: ClassVar[str] = "inference_pool"
    name: str
    namespace: str | None = None

    def discovery(self, source: WorkerSource, tools: DiscoveryTools, on_refused: OnRefused) -> Discovery:
        return KubernetesDiscovery(
            source,
            partial(PoolMembers, tools, self.name, self.namespace),
            partial(workers_in, wanted=self),
            discovery_status=tools.discovery_status,
            on_refused=on_refused,
        )


def workers_in(objects: Sequence[PoolObject], wanted: PoolSource) -> Found:
    """Return the workers of the InferencePool in *objects*, which also contains the pods of the pool.

    Each target port of each pod is a worker. Several target ports are the data-parallel ranks of the pod.
    """
    pools = [each for each in objects if isinstance(each, InferencePool)]
    if not pools:
        return Found()
    spec = pools[0].spec
    ports = tuple(dict.fromkeys(port.number for port in spec.target_ports or ()))
    missing = "no target ports" if not ports else "no labels in its selector" if not selector_of(pools[0]) else ""
    if missing:
        return Found((), (f"InferencePool {wanted.name}: it has {missing}.",))
    found = workers_at([each for each in objects if isinstance(each, Pod)], lambda _: ports, wanted.namespace)
    if spec.app_protocol in (None, "http"):
        return found
    text = f"InferencePool {wanted.name}: its appProtocol is {spec.app_protocol}, but Warmgate itself uses HTTP/1.1."
    return Found(found.workers, (*found.sentences, text))
