"""The policies by name. A new one is a module beside these and a line in the table.

Most are an index, what the policy believes that workers hold, and a rule, what it makes of that.
"""

from collections.abc import Callable, Mapping

from benchmarks.policies.at_once import AtOnce, Rule
from benchmarks.policies.at_random import AtRandom
from benchmarks.policies.bounded_ring import BoundedRing
from benchmarks.policies.cache_aware import CacheAware
from benchmarks.policies.dynamo import BlockCost
from benchmarks.policies.dynamo_linear import AGENTIC, BEST, BEST_FOR_AGENTS, LinearCost, Weights
from benchmarks.policies.events import Events, EventsAndInFlight
from benchmarks.policies.externality import Externality
from benchmarks.policies.index import Index
from benchmarks.policies.late_binding import LateBinding
from benchmarks.policies.least_prefill_tokens import LeastPrefillTokens
from benchmarks.policies.least_requests import LeastRequests
from benchmarks.policies.llm_d import WeightedScores
from benchmarks.policies.llm_d_sticky import StickyUntilSaturated
from benchmarks.policies.lmetric import LMetric
from benchmarks.policies.min_ttft import MinTtft
from benchmarks.policies.nothing import Nothing
from benchmarks.policies.rendezvous import Rendezvous
from benchmarks.policies.round_robin import RoundRobin
from benchmarks.policies.sent_prompts import SentPrompts
from benchmarks.policies.shadow import Shadow
from benchmarks.policies.shared_cache import Order, first_come, shortest_uncached
from benchmarks.policies.thunder_agent import ThunderAgent
from benchmarks.policies.under_way import UnderWay
from replay.policy import Policy, Setup

HASHED_BLOCKS = 2
"""The first block of every conversation in the traces is the same: hashing it would send all to one worker."""
LOAD_FACTOR = 1.25
"""Factor of bounded loads, in the paper's introduction and in those who followed it."""

MakePolicy = Callable[[Setup], Policy]


def _with(index: Callable[[Setup], Index], rule: Callable[[Setup], Rule]) -> MakePolicy:
    return lambda setup: AtOnce(setup, index(setup), rule(setup))


def _nothing(setup: Setup) -> Index:
    return Nothing(setup.workers)


def _events(setup: Setup) -> Index:
    return Events(setup.workers)


def _events_and_in_flight(setup: Setup) -> Index:
    return EventsAndInFlight(setup.workers)


def _sent_prompts(setup: Setup) -> Index:
    return SentPrompts(setup.workers)


def _shadow(setup: Setup) -> Index:
    return Shadow(setup.workers, setup.capacity_blocks)


def _least_requests(setup: Setup) -> Rule:
    return LeastRequests(setup.rng)


def _rendezvous(k: int) -> Callable[[Setup], Rule]:
    return lambda setup: Rendezvous(k, otherwise=_least_requests(setup))


def _bounded_ring(setup: Setup) -> Rule:
    return BoundedRing(setup.workers, k=HASHED_BLOCKS, load_factor=LOAD_FACTOR, otherwise=_least_requests(setup))


def _cache_aware(setup: Setup) -> Rule:
    return CacheAware(setup.rng, block_tokens=setup.block_tokens, otherwise=_least_requests(setup))


def _weighted_scores(setup: Setup) -> Rule:
    return WeightedScores(setup.rng, capacity_blocks=setup.capacity_blocks)


def _block_cost(overlap_weight: float) -> Callable[[Setup], Rule]:
    return lambda setup: BlockCost(setup.rng, block_tokens=setup.block_tokens, overlap_weight=overlap_weight)


def _min_ttft(setup: Setup) -> Rule:
    return MinTtft(setup.rng, prefill_tokens_per_s=setup.prefill_tokens_per_s)


def _externality(setup: Setup) -> Rule:
    return Externality(
        setup.rng, prefill_tokens_per_s=setup.prefill_tokens_per_s, prefill_fixed_s=setup.prefill_fixed_s
    )


def _sticky(setup: Setup) -> Rule:
    return StickyUntilSaturated(setup.rng, prefill_tokens_per_s=setup.prefill_tokens_per_s)


def _linear_cost(setup: Setup, weights: Weights) -> tuple[Index, Rule]:
    """Dynamo with predict-on-route (`router_predicted_ttl_secs`): it knows the prompts that are being computed."""
    under_way = UnderWay(setup.workers, _events_and_in_flight(setup))
    return under_way, LinearCost(setup, under_way, weights)


def _dynamo(weights: Weights) -> MakePolicy:
    return lambda setup: AtOnce(setup, *_linear_cost(setup, weights))


def _thunder_agent(setup: Setup) -> Policy:
    """Dynamo's port: requests without a session go by Dynamo's own cost."""
    return ThunderAgent(setup, *_linear_cost(setup, Weights()))


POLICIES: Mapping[str, MakePolicy] = {
    "random": _with(_nothing, lambda setup: AtRandom(setup.rng)),
    "round_robin": _with(_nothing, lambda _: RoundRobin()),
    "least_requests": _with(_nothing, _least_requests),
    "least_prefill_tokens": _with(_events, lambda setup: LeastPrefillTokens(setup.rng)),
    "session_hash": _with(_nothing, _rendezvous(0)),
    "hash_1": _with(_nothing, _rendezvous(1)),
    "hash_2": _with(_nothing, _rendezvous(2)),
    "chwbl": _with(_nothing, _bounded_ring),
    "sglang_cache_aware": _with(_sent_prompts, _cache_aware),
    "smg_event_driven": _with(_events, _cache_aware),
    "llm_d": _with(_events, _weighted_scores),
    "llm_d_sticky": _with(_shadow, _sticky),
    "llm_d_sticky_events": _with(_events_and_in_flight, _sticky),
    "dynamo_1": _with(_events, _block_cost(1)),
    "dynamo_4": _with(_events, _block_cost(4)),
    "dynamo_64": _with(_events, _block_cost(64)),
    "dynamo_agentic": _dynamo(AGENTIC),
    "dynamo_best": _dynamo(BEST),
    "dynamo_best_agents": _dynamo(BEST_FOR_AGENTS),
    "thunder_agent": _thunder_agent,
    "lmetric": _with(_events, lambda setup: LMetric(setup.rng)),
    "min_ttft": _with(_events_and_in_flight, _min_ttft),
    "policy_a": _with(_events_and_in_flight, _externality),
    "policy_a_shadow": _with(_shadow, _externality),
    "policy_b": lambda setup: LateBinding(setup, _events_and_in_flight(setup)),
}

BOUNDS: Mapping[str, Order] = {"bound_first_come": first_come, "bound_shortest_first": shortest_uncached}
"""Not policies: one `SharedCache` of all blocks, with this order, is the only worker, and the policy is `ToTheOne`."""
