"""Names that stand for models, by weight."""

import random

from gateway.models.rewrites import ModelRewrites, RewriteRule, RewriteRules, Rewrites, oldest


def one(target: str, created: str = "") -> RewriteRule:
    return RewriteRule((target,), (1,), created)


def test_a_rule_with_the_name_takes_precedence() -> None:
    rules = RewriteRules({"chat": one("a")}, one("b"))

    assert (one("a"), one("b"), None) == (rules.rule("chat"), rules.rule("other"), RewriteRules().rule("chat"))


def test_targets_are_chosen_by_weight() -> None:
    rewrites = ModelRewrites(random.Random(1))
    targets = [rewrites.target(RewriteRule(("a", "b"), (3, 1))) for _ in range(400)]

    assert 270 < targets.count("a") < 330


def test_a_tool_loop_keeps_its_target_in_all_gateways() -> None:
    """Other requests with the same message of the user need no such choice."""
    rule = RewriteRule(("a", "b"), (3, 1))
    gateways = [ModelRewrites(random.Random(seed)) for seed in range(2)]
    result = b"\xffassistant\xfb{}\xfftool\xfdsunny"
    targets: list[str] = []
    for turn in range(400):
        prompt = b'\xf8{"tools":[{}]}\xffuser\xfd%d' % turn
        found = {
            each.target(rule, said) for each in gateways for said in (prompt, prompt + result, prompt + 2 * result)
        }
        targets += found
        assert 1 == len(found)

    assert 270 < targets.count("a") < 330
    assert {"a", "b"} == {gateways[0].target(rule, b"\xffuser\xfdhello") for _ in range(100)}


def test_each_model_has_its_own_rules() -> None:
    rewrites = Rewrites(random.Random(1))
    rewrites.of("tiny").rules = RewriteRules({}, one("a"))

    assert (one("a"), None) == (rewrites.of("tiny").rules.others, rewrites.of("huge").rules.others)


def test_the_oldest_rule_of_several_models_applies() -> None:
    """Rules without names only apply to requests of their own model."""
    rewrites = Rewrites(random.Random(1))
    rewrites.of("new").rules = RewriteRules({"chat": one("a", "2026-02-01T00:00:00Z")})
    rewrites.of("old").rules = RewriteRules({"chat": one("b", "2026-01-01T00:00:00Z")}, one("c"))
    both = [(name, rewrites.of(name)) for name in ("new", "old")]
    found = oldest("chat", both)

    assert found is not None
    assert (rewrites.of("old"), one("b", "2026-01-01T00:00:00Z")) == found
    assert oldest("other", both) is None
