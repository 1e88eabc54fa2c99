from prometheus_client import CollectorRegistry

from gateway.proxy.guardrails.counters import GuardrailCounters


def test_it_counts_what_was_done_and_what_failed() -> None:
    counters, registry = GuardrailCounters(), CollectorRegistry()
    registry.register(counters)
    counters.acted("pii", "request", "redact")
    counters.acted("pii", "request", "redact")
    counters.failed("judge")

    labels = {"guardrail": "pii", "direction": "request", "action": "redact"}
    assert 2.0 == registry.get_sample_value("warmgate_guardrail_actions_total", labels)
    assert 1.0 == registry.get_sample_value("warmgate_guardrail_failures_total", {"guardrail": "judge"})
