"""Settings for pulls: a worker loads cached blocks from the host memory of another worker of the model."""

from collections.abc import Sequence
from typing import Protocol

from pydantic import Field

from gateway.protocol.contradictions import Contradiction
from gateway.protocol.field_types import Group
from gateway.settings.rules import Count
from routing.pull_outcomes import AFTER_REQUESTS

PULL_PORT = 5710
"""Default port of vLLM's p2p tier (VLLM_P2P_SIDE_CHANNEL_PORT)."""


class PullSettings(Group):
    port: int = Field(
        default=PULL_PORT,
        ge=1,
        le=65535,
        description="port of the p2p tier of each worker without a pull_port (VLLM_P2P_SIDE_CHANNEL_PORT). A "
        "data-parallel rank adds its number to the port.",
    )
    host_tokens: Count | None = Field(
        default=None,
        description="number of tokens whose KV cache fits into the host memory of each worker "
        "(cpu_bytes_to_use, divided by the bytes per token). With null, the gateway learns it when an engine first "
        "evicts blocks from host memory, and allows few pulls until then.",
    )
    after_requests: int = Field(
        default=AFTER_REQUESTS,
        ge=0,
        description="number of requests after which workers begin to pull. The gateway learns from these requests how "
        "much memory sessions need.",
    )


class PullsFrom(Protocol):
    """Settings of a worker that determine where other workers pull blocks from it."""

    @property
    def pull_port(self) -> int | None: ...

    @property
    def dynamo(self) -> object | None: ...


def impossible_pulls(
    workers: Sequence[PullsFrom], pull: PullSettings | None, *, needs_events: bool, is_divided: bool
) -> list[Contradiction]:
    """Return the contradictions between *pull* and the other settings of a model.

    *needs_events* is true if a strategy of the model uses KV events. *is_divided* is true if the model has prefill
    workers.
    """
    if pull is None:
        text = "has no effect without the pull settings of the model"
        return [
            Contradiction(("workers", i, "pull_port"), text)
            for i, worker in enumerate(workers)
            if worker.pull_port is not None
        ]
    found: list[Contradiction] = []
    if not needs_events:
        text = "needs strategy kv_aware, because only KV events show which worker holds a block in host memory"
        found.append(Contradiction(("pull",), text))
    if is_divided:
        text = "cannot be combined with disaggregation, because both use the field kv_transfer_params"
        found.append(Contradiction(("pull",), text, ("disaggregation",)))
    text = "cannot be combined with pull. A Dynamo frontend does not forward the field kv_transfer_params"
    found += [Contradiction(("workers", i, "dynamo"), text) for i, worker in enumerate(workers) if worker.dynamo]
    return found
