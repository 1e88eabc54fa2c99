"""InferenceObjectives of llm-d that apply to an InferencePool."""

from collections.abc import Iterable, Mapping

from gateway.workers.kubernetes.objects import InferenceObjective, InferenceObjectiveSpec, InferencePool, LabelRule


def priorities_in(objectives: Iterable[InferenceObjective], pool: InferencePool) -> dict[str, int]:
    """Return the priority of each of the *objectives* that applies to *pool*, by name. A missing priority is 0."""
    return {each.metadata.name: each.spec.priority or 0 for each in objectives if _applies(each.spec, pool)}


def _applies(spec: InferenceObjectiveSpec, pool: InferencePool) -> bool:
    """Return whether any of the references or the selector of *spec* matches *pool*."""
    references = spec.pool_refs or ()
    if spec.pool_ref is not None:
        references = (*references, spec.pool_ref)
    if any(reference.name == pool.metadata.name for reference in references):
        return True
    selector = spec.pool_selector
    if selector is None:
        return False
    labels = pool.metadata.labels or {}
    wanted = selector.match_labels or {}
    return all(labels.get(name) == value for name, value in wanted.items()) and all(
        _is_met(rule, labels) for rule in selector.match_expressions or ()
    )


def _is_met(rule: LabelRule, labels: Mapping[str, str]) -> bool:
    """Return whether *labels* meet *rule*. No labels meet a rule with an unknown operator."""
    value = labels.get(rule.key)
    if rule.operator == "Exists":
        return value is not None
    if rule.operator == "DoesNotExist":
        return value is None
    if rule.operator == "In":
        return value is not None and value in (rule.values or ())
    return rule.operator == "NotIn" and value not in (rule.values or ())
