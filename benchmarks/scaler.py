"""Replicas by Kubernetes' rule: a HorizontalPodAutoscaler, on a KEDA ScaledObject as it is deployed.

The rule is that of the Kubernetes documentation ("Horizontal Pod Autoscaling", algorithm details): as many as make the
average come to its target, rounded up; as they are while the average is within a tenth of it; the most that any metric
wants; between least and most. Windows and speeds (``behavior``) only say how soon that many are there: left out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TOLERANCE = 0.1
"""kube-controller-manager's default, ``--horizontal-pod-autoscaler-tolerance``."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """A query to Prometheus, and what of its answer is for one replica (``AverageValue``)."""

    name: str
    query: str
    target: float

    def wants(self, replicas: int, value: float) -> int:
        """Replicas for an answer of *value* where *replicas* are, at least one."""
        if abs(value / (self.target * replicas) - 1) <= TOLERANCE:
            return replicas
        return math.ceil(value / self.target)


@dataclass(frozen=True, slots=True)
class Scaler:
    """A ScaledObject, without its triggers of other kinds: the processor's use is not in Prometheus."""

    name: str
    least: int
    most: int
    triggers: Sequence[Trigger]

    @classmethod
    def of(cls, scaled_object: Mapping[str, Any]) -> "Scaler":
        """Raises ``ValueError`` where a query to Prometheus is not by the average."""
        spec = scaled_object["spec"]
        queried = [trigger for trigger in spec["triggers"] if trigger["type"] == "prometheus"]
        if any(trigger["metricType"] != "AverageValue" for trigger in queried):
            raise ValueError("only AverageValue is known here")
        triggers = [
            Trigger(trigger["name"], trigger["metadata"]["query"], float(trigger["metadata"]["threshold"]))
            for trigger in queried
        ]
        return cls(scaled_object["metadata"]["name"], spec["minReplicaCount"], spec["maxReplicaCount"], triggers)

    def replicas(self, now: int, values: Mapping[str, float | None]) -> int:
        """Return how many replicas there should be where *now* are. *values* by trigger; None: no answer.

        While one does not answer, none is taken away.
        """
        wanted = [
            trigger.wants(now, value) for trigger in self.triggers if (value := values.get(trigger.name)) is not None
        ]
        if len(wanted) < len(self.triggers):
            wanted.append(now)
        return min(max(*wanted, self.least), self.most)
