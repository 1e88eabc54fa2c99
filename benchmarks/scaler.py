"""Number of replicas that Kubernetes would request for a deployed KEDA ScaledObject.

The rule is in the Kubernetes documentation ("Horizontal Pod Autoscaling", algorithm details). The number of replicas
brings the average of a metric to its target, rounded up. The number does not change while the average is within a tenth
of the target. The metric with the highest number decides, within the minimum and the maximum. Windows and speeds
(``behavior``) only affect the delay and are left out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TOLERANCE = 0.1
"""Default tolerance of kube-controller-manager, ``--horizontal-pod-autoscaler-tolerance``."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """Prometheus query, and the part of its result for one replica (``AverageValue``)."""

    name: str
    query: str
    target: float

    def wants(self, replicas: int, value: float) -> int:
        """Return the replicas for a result of *value* with *replicas* current replicas, at least one."""
        if abs(value / (self.target * replicas) - 1) <= TOLERANCE:
            return replicas
        return math.ceil(value / self.target)


@dataclass(frozen=True, slots=True)
class Scaler:
    """ScaledObject with its Prometheus triggers. Triggers of other kinds are left out."""

    name: str
    least: int
    most: int
    triggers: Sequence[Trigger]

    @classmethod
    def of(cls, scaled_object: Mapping[str, Any]) -> "Scaler":
        """Return the scaler of a manifest. Raises ``ValueError`` if a Prometheus trigger does not use the average."""
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
        """Return the number of replicas for *now* current replicas and the query results *values*, by trigger.

        While one does not answer, none is taken away.
        """
        wanted = [
            trigger.wants(now, value) for trigger in self.triggers if (value := values.get(trigger.name)) is not None
        ]
        if len(wanted) < len(self.triggers):
            wanted.append(now)
        return min(max(*wanted, self.least), self.most)
