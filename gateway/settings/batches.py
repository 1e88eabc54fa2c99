"""Settings for batches under ``/v1/batches``, which need files (`gateway.settings.files`)."""

from pydantic import Field

from gateway.protocol.field_types import Group
from gateway.settings.rules import Count, Positive


class BatchesSettings(Group):
    max_in_flight_per_worker: Count = Field(
        default=8,
        description="maximum number of lines of batches that a gateway has in flight, per ready worker of a model. A "
        "line starts only while no request waits for a worker of the model.",
    )
    max_team_batches: Count = Field(
        default=1000, description="maximum number of batches of a team, with those that have ended"
    )
    lease_s: Positive = Field(
        default=30,
        description="seconds without contact after which a gateway counts as dead and other gateways run its lines of "
        "batches",
    )
