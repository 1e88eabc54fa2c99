"""InferenceModelRewrites of llm-d that apply to an InferencePool.

A rule with names takes precedence over a rule without. Among several such rules, the one of the oldest object applies,
and within an object the first one.
"""

from collections.abc import Iterable
from typing import Final

from gateway.models.rewrites import RewriteRule, RewriteRules
from gateway.protocol.body import MAX_NAME_CHARACTERS
from gateway.workers.kubernetes.objects import InferenceModelRewrite, InferencePool, ModelRewriteRule

MAX_NAMES: Final = 1000
"""Maximum number of names and targets in all objects of a pool."""
_GROUPS: Final = frozenset({"", "inference.networking.k8s.io"})
MAX_WEIGHT: Final = 1_000_000


def rules_in(rewrites: Iterable[InferenceModelRewrite], pool: InferencePool) -> tuple[RewriteRules, tuple[str, ...]]:
    """Return the rules of those *rewrites* that apply to *pool*, and a sentence for each object that is refused."""
    by_name: dict[str, RewriteRule] = {}
    others: RewriteRule | None = None
    refused: list[str] = []
    size = 0
    for each in sorted(rewrites, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name)):
        if not _applies(each, pool):
            continue
        rules = each.spec.rules or ()
        added = sum(len(rule.matches or ()) + len(rule.targets or ()) for rule in rules)
        fault = next(filter(None, map(_fault_of, rules)), "")
        if not fault and size + added > MAX_NAMES:
            fault = f"the pool has more than {MAX_NAMES} names and targets"
        if fault:
            refused.append(f"InferenceModelRewrite {each.metadata.name}: {fault}.")
            continue
        size += added
        for rule in rules:
            made = _rule(rule, each.metadata.creation_timestamp or "")
            if not rule.matches:
                others = others or made
            for match in rule.matches or ():
                by_name.setdefault(match.model.value, made)
    return RewriteRules(by_name, others), tuple(refused)


def _applies(rewrite: InferenceModelRewrite, pool: InferencePool) -> bool:
    reference = rewrite.spec.pool_ref
    if reference is None or rewrite.metadata.deletion_timestamp is not None:
        return False
    return reference.name == pool.metadata.name and (reference.group or "") in _GROUPS


def _fault_of(rule: ModelRewriteRule) -> str:
    """Return the reason why *rule* cannot be applied, or an empty string."""
    targets = rule.targets or ()
    names = [*(match.model.value for match in rule.matches or ()), *(target.model_rewrite for target in targets)]
    if not targets:
        return "a rule has no targets"
    if any(match.model.type not in {None, "Exact"} for match in rule.matches or ()):
        return "a rule has a type of match other than Exact"
    if not all(0 < len(name) <= MAX_NAME_CHARACTERS for name in names):
        return f"a model name is empty or longer than {MAX_NAME_CHARACTERS} characters"
    if any(target.weight is not None and not 0 < target.weight <= MAX_WEIGHT for target in targets):
        return f"a weight is not between 1 and {MAX_WEIGHT}"
    return ""


def _rule(rule: ModelRewriteRule, created: str) -> RewriteRule:
    """Return *rule* as a plain value. If some targets have weights, the others get no requests."""
    targets = rule.targets or ()
    weighted = [(target.model_rewrite, target.weight) for target in targets if target.weight is not None]
    shares = weighted or [(target.model_rewrite, 1) for target in targets]
    return RewriteRule(tuple(name for name, _ in shares), tuple(weight for _, weight in shares), created)
