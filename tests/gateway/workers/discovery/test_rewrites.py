"""InferenceModelRewrites that apply to a pool."""

from typing import Any

import msgspec
import pytest

from gateway.models.rewrites import RewriteRule, RewriteRules
from gateway.workers.discovery.rewrites import rules_in
from gateway.workers.kubernetes.objects import InferenceModelRewrite, InferencePool
from tests.kubernetes_api import a_rewrite, a_rewrite_rule

POOL = msgspec.convert({"metadata": {"name": "llama"}}, InferencePool)
EARLY, LATE = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"


def rules(*rewrites: dict[str, Any]) -> tuple[RewriteRules, tuple[str, ...]]:
    return rules_in((msgspec.convert(each, InferenceModelRewrite) for each in rewrites), POOL)


def test_only_rewrites_of_the_pool_apply() -> None:
    leaving = a_rewrite("leaving", a_rewrite_rule(["c"], {"x": None}))
    leaving["metadata"]["deletionTimestamp"] = LATE
    elsewhere = a_rewrite("elsewhere", a_rewrite_rule(["d"], {"x": None}))
    elsewhere["spec"]["poolRef"]["group"] = "example.com"
    found, refused = rules(
        a_rewrite("one", a_rewrite_rule(["a"], {"x": None})),
        a_rewrite("other", a_rewrite_rule(["b"], {"x": None}), pool="tiny"),
        {"metadata": {"name": "bare"}},
        leaving,
        elsewhere,
    )

    assert (RewriteRules({"a": RewriteRule(("x",), (1,), EARLY)}), ()) == (found, refused)


def test_the_oldest_object_and_its_first_rule_take_precedence() -> None:
    found, _ = rules(
        a_rewrite("a", a_rewrite_rule(["n"], {"new": None}), a_rewrite_rule([], {"new": None}), created=LATE),
        a_rewrite("b", a_rewrite_rule(["n", "m"], {"first": None}), a_rewrite_rule(["n"], {"second": None})),
        a_rewrite("c", a_rewrite_rule([], {"old": None}), created="2026-01-15T00:00:00Z"),
    )

    assert {"n": ("first",), "m": ("first",)} == {name: rule.targets for name, rule in found.by_name.items()}
    assert found.others == RewriteRule(("old",), (1,), "2026-01-15T00:00:00Z")


@pytest.mark.parametrize(
    ("targets", "names", "weights"),
    [
        ({"a": None, "b": None}, ("a", "b"), (1, 1)),
        ({"a": 9, "b": 1}, ("a", "b"), (9, 1)),
        ({"a": None, "b": 5}, ("b",), (5,)),
    ],
)
def test_weights_are_those_of_llm_d(
    targets: dict[str, int | None], names: tuple[str, ...], weights: tuple[int, ...]
) -> None:
    """Without weights, all targets are equal. If only some have weights, the others get no requests."""
    found, _ = rules(a_rewrite("one", a_rewrite_rule(["n"], targets)))

    assert RewriteRule(names, weights, EARLY) == found.by_name["n"]


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"matches": []}, "a rule has no targets"),
        (a_rewrite_rule(["n"], {"": None}), "a model name is empty or longer than 512 characters"),
        (a_rewrite_rule(["n" * 513], {"x": None}), "a model name is empty or longer than 512 characters"),
        (a_rewrite_rule(["n"], {"x": 0}), "a weight is not between 1 and 1000000"),
        (a_rewrite_rule(["n"], {"x": 1_000_001}), "a weight is not between 1 and 1000000"),
        (
            {"matches": [{"model": {"type": "Prefix", "value": "n"}}], "targets": [{"modelRewrite": "x"}]},
            "a rule has a type of match other than Exact",
        ),
        (
            a_rewrite_rule([str(number) for number in range(1000)], {"x": None}),
            "the pool has more than 1000 names and targets",
        ),
    ],
)
def test_an_object_with_a_fault_is_refused_as_a_whole(rule: dict[str, Any], why: str) -> None:
    good = a_rewrite("good", a_rewrite_rule(["n"], {"kept": None}), created=LATE)
    found, refused = rules(a_rewrite("bad", a_rewrite_rule(["m"], {"x": None}), rule), good)

    assert (["n"], (f"InferenceModelRewrite bad: {why}.",)) == (list(found.by_name), refused)


def test_optional_fields_may_be_null() -> None:
    """Names and types of fields are those of the CRD inferencemodelrewrites.llm-d.ai, v1alpha2."""
    rewrite = {
        "apiVersion": "llm-d.ai/v1alpha2",
        "kind": "InferenceModelRewrite",
        "metadata": {"name": "one", "creationTimestamp": EARLY, "deletionTimestamp": None},
        "spec": {
            "poolRef": {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "llama"},
            "rules": [
                {"matches": [{"model": {"value": "n"}}], "targets": [{"modelRewrite": "x", "weight": None}]},
                {"matches": None, "targets": [{"modelRewrite": "y"}]},
            ],
        },
        "status": {"conditions": [{"type": "Accepted", "status": "Unknown"}]},
    }

    assert (RewriteRules({"n": RewriteRule(("x",), (1,), EARLY)}, RewriteRule(("y",), (1,), EARLY)), ()) == rules(
        rewrite
    )
