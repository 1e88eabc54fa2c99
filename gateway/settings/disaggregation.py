"""Settings for disaggregation: some workers compute prompts (prefill), others generate answers (decode)."""

from collections.abc import Sequence
from typing import Literal, Protocol

from pydantic import Field

from gateway.protocol.contradictions import Contradiction, roles_in_vain
from gateway.protocol.field_types import Group
from gateway.settings.rules import Count

Flow = Literal["nixl", "sglang"]
RoleName = Literal["both", "prefill", "decode"]


class DisaggregationSettings(Group):
    flow: Flow = Field(
        description="protocol that transfers computed prompts from prefill to decode workers: nixl (vLLM) or "
        "sglang (SGLang)"
    )
    min_uncached_tokens: Count | None = Field(
        default=None,
        description="minimum number of uncached prompt tokens for which a prefill worker is used. Null means that "
        "the gateway decides, using measured rates.",
    )
    replace_loopback: bool = Field(
        default=True,
        description="replace a loopback address in remote_host by the host of the prefill worker (flow: nixl). With "
        "false, the address that vLLM reports is used.",
    )


class HasRole(Protocol):
    """Settings of a worker that determine which part of a request it computes."""

    @property
    def role(self) -> RoleName: ...

    @property
    def bootstrap_port(self) -> int | None: ...


def misplaced(
    workers: Sequence[HasRole], disaggregation: DisaggregationSettings | None, *, are_all: bool
) -> list[Contradiction]:
    """Return the contradictions between the roles of a model's *workers*. *are_all* means that no others exist."""
    found: list[Contradiction] = []
    if disaggregation is None:
        found = roles_in_vain([(("workers", i), worker.role) for i, worker in enumerate(workers)])
    for i, worker in enumerate(workers):
        if worker.bootstrap_port is not None and (worker.role != "prefill" or not _is_sglang(disaggregation)):
            text = "is allowed only for prefill workers of a model whose disaggregation.flow is sglang"
            found.append(Contradiction(("workers", i, "bootstrap_port"), text))
    if disaggregation is None:
        return found
    if _is_sglang(disaggregation) and disaggregation.min_uncached_tokens is not None:
        text = "has no effect if flow is sglang, because SGLang's decode workers compute no prompts"
        found.append(Contradiction(("disaggregation", "min_uncached_tokens"), text))
    roles = {worker.role for worker in workers}
    for role, other in (("prefill", "decode"), ("decode", "prefill")):
        if are_all and role not in roles:
            text = f"needs at least one worker whose role is {role}, in addition to {other} workers"
            found.append(Contradiction(("disaggregation",), text))
    return found


def _is_sglang(disaggregation: DisaggregationSettings | None) -> bool:
    return disaggregation is not None and disaggregation.flow == "sglang"
