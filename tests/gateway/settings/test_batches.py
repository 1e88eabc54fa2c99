from gateway.settings.batches import BatchesSettings


def test_a_worker_has_few_lines_in_flight() -> None:
    settings = BatchesSettings()

    assert (32, 1000, 30) == (settings.max_in_flight_per_worker, settings.max_team_batches, settings.lease_s)


def test_enqueued_tokens_have_no_limit_by_default() -> None:
    settings = BatchesSettings()

    assert (None, {}) == (settings.max_enqueued_tokens, settings.model_enqueued_tokens)
    assert (True, {}) == (settings.interrupt_prompts, settings.model_interrupt_prompts)
