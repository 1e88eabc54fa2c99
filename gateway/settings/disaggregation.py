"""The group of settings for workers that share requests: some compute prompts, others generate answers."""

from collections.abc import Sequence
from typing import Literal, Protocol

from pydantic import Field

from gateway.settings.group import Group
from gateway.settings.names import Place
from gateway.settings.rules import Contradiction, Count

Flow = Literal["nixl", "sglang"]
RoleName = Literal["both", "prefill", "decode"]


class DisaggregationSettings(Group):
    flow: Flow = Field(description="how prompts get from prefill to decode workers: nixl (vLLM) or sglang")
    least_uncached_tokens: Count | None = Field(
        default=None,
        description="tokens that a decode worker must lack to have them computed elsewhere; null: by measured rates",
    )
    replace_loopback: bool = Field(
        default=True,
        description="nixl: a remote_host that is a loopback address is replaced by the host of the prefill worker",
    )


class HasRole(Protocol):
    """A worker, as the rules of roles see it."""

    @property
    def role(self) -> RoleName: ...

    @property
    def bootstrap_port(self) -> int | None: ...


def misplaced(
    workers: Sequence[HasRole], disaggregation: DisaggregationSettings | None, *, are_all: bool
) -> list[Contradiction]:
    """What is wrong with the roles of one model's *workers*; *are_all*: no others can be found while running."""
    found = roles_in_vain([(("workers", i), worker) for i, worker in enumerate(workers)], disaggregation)
    for i, worker in enumerate(workers):
        if worker.bootstrap_port is not None and (worker.role != "prefill" or not _is_sglang(disaggregation)):
            text = "is only for prefill workers of a model whose disaggregation.flow is sglang"
            found.append(Contradiction(("workers", i, "bootstrap_port"), text))
    if disaggregation is None:
        return found
    if _is_sglang(disaggregation) and disaggregation.least_uncached_tokens is not None:
        text = "has no meaning where flow is sglang: its decode workers compute no prompts"
        found.append(Contradiction(("disaggregation", "least_uncached_tokens"), text))
    roles = {worker.role for worker in workers}
    for role, other in (("prefill", "decode"), ("decode", "prefill")):
        if are_all and role not in roles:
            text = f"needs at least one worker whose role is {role}, beside those that {other}"
            found.append(Contradiction(("disaggregation",), text))
    return found


def roles_in_vain(
    workers: Sequence[tuple[Place, HasRole]], disaggregation: DisaggregationSettings | None
) -> list[Contradiction]:
    """One contradiction for each of the *workers*, at their places, that does one half where nobody does the other."""
    if disaggregation is not None:
        return []
    text = "is {!r}, but the model has no disaggregation: nobody would do the other half"
    return [
        Contradiction((*place, "role"), text.format(worker.role)) for place, worker in workers if worker.role != "both"
    ]


def _is_sglang(disaggregation: DisaggregationSettings | None) -> bool:
    return disaggregation is not None and disaggregation.flow == "sglang"
