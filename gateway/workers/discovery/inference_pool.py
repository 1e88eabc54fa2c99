"""Convert an InferencePool and its pods into workers, its InferenceObjectives into priorities, and its
InferenceModelRewrites into rules for model names.

For the fields of a pool see https://gateway-api-inference-extension.sigs.k8s.io/reference/spec/
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from gateway.models.rewrites import RewriteRules
from gateway.workers.discovery.discovery import Discovery
from gateway.workers.discovery.found import Found
from gateway.workers.discovery.kubernetes import KubernetesDiscovery
from gateway.workers.discovery.objectives import priorities_in
from gateway.workers.discovery.pods import workers_at
from gateway.workers.discovery.pool_members import PolicyCollection, PoolMembers, PoolObject, selector_of
from gateway.workers.discovery.rewrites import rules_in
from gateway.workers.discovery.source import DiscoveryTools, OnRefused, WorkerSource
from gateway.workers.kubernetes.collection import objectives_in, rewrites_in
from gateway.workers.kubernetes.objects import InferenceModelRewrite, InferenceObjective, InferencePool, Pod

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PoolSource:
    """InferencePool whose endpoints are workers."""

    kind: ClassVar[str] = "inference_pool"
    name: str
    namespace: str | None = None
    has_objectives: bool = False
    """Whether InferenceObjectives give requests their priorities."""
    has_rewrites: bool = False
    """Whether InferenceModelRewrites replace model names in requests."""

    def discovery(self, source: WorkerSource, tools: DiscoveryTools, on_refused: OnRefused) -> Discovery:
        objectives, rewrites = tools.objectives.of(source.model), tools.rewrites.of(source.model)
        logged: set[str] = set()

        def read(objects: Sequence[PoolObject]) -> Found:
            objectives.priorities = priorities_of(objects)
            rewrites.rules, refused = rewrites_of(objects)
            for sentence in sorted(set(refused) - logged):
                _log.warning("%s", sentence)
            logged.clear()
            logged.update(refused)
            return workers_in(objects, self)

        policies: list[PolicyCollection] = [objectives_in(self.namespace)] if self.has_objectives else []
        policies += [rewrites_in(self.namespace)] if self.has_rewrites else []
        return KubernetesDiscovery(
            source,
            partial(PoolMembers, tools, self.name, self.namespace, policies=policies),
            read,
            discovery_status=tools.discovery_status,
            on_refused=on_refused,
        )


def priorities_of(objects: Sequence[PoolObject]) -> dict[str, int]:
    """Return the priorities of the InferenceObjectives in *objects* that apply to the pool in *objects*, by name."""
    pools = [each for each in objects if isinstance(each, InferencePool)]
    return priorities_in((each for each in objects if isinstance(each, InferenceObjective)), pools[0]) if pools else {}


def rewrites_of(objects: Sequence[PoolObject]) -> tuple[RewriteRules, tuple[str, ...]]:
    """Return the rules of the InferenceModelRewrites in *objects* that apply to the pool in *objects*, and a sentence
    for each one that is refused.
    """
    pools = [each for each in objects if isinstance(each, InferencePool)]
    found = [each for each in objects if isinstance(each, InferenceModelRewrite)]
    return rules_in(found, pools[0]) if pools else (RewriteRules(), ())


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
