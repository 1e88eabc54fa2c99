from prometheus_client import CollectorRegistry

from gateway.guardrails.tally import GuardrailTally


def test_it_counts_what_was_done_and_what_failed() -> None:
    tally, registry = GuardrailTally(), CollectorRegistry()
    registry.register(tally)
    tally.acted("pii", "request", "redact")
    tally.acted("pii", "request", "redact")
    tally.failed("judge")

    labels = {"guardrail": "pii", "direction": "request", "action": "redact"}
    assert 2.0 == registry.get_sample_value("warmgate_guardrail_actions_total", labels)
    assert 1.0 == registry.get_sample_value("warmgate_guardrail_failures_total", {"guardrail": "judge"})
