"""Facts about how the store of a gateway is reached, as values."""

from pathlib import Path

from gateway.app.mapping.tenancy import store_rules
from gateway.app.store_rules import StoreRules, kind_of
from gateway.tenancy.quota.share import Policy
from tests.gateway.settings.examples import SMALLEST, parsed


def test_secrets_are_not_shown() -> None:
    rules = StoreRules(None, url="redis://:hunter2@h", pepper=b"pepper-1")

    assert "hunter2" not in repr(rules)
    assert "pepper-1" not in repr(rules)


def test_a_store_is_memory_a_file_or_redis() -> None:
    urls = ["null", "sqlite:////var/w.db", "redis://h:1/0"]
    rules = [store_rules(parsed(f"{SMALLEST}\nstore: {{url: {url!r}}}".replace("'null'", "null"))) for url in urls]

    assert ["file", "file", "redis"] == [kind_of(each) for each in rules]
    assert [(Path(":memory:"), ""), (Path("/var/w.db"), ""), (None, "redis://h:1/0")] == [
        (each.file, each.url) for each in rules
    ]


def test_a_policy_of_the_settings_holds_while_redis_is_unavailable() -> None:
    settings = parsed(f"{SMALLEST}\nstore: {{on_unavailable_tokens: fail_closed, on_unavailable_budget: share}}")

    assert Policy("share", "closed", "share", "share") == store_rules(settings).policy
