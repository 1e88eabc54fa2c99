from gateway.usage_fields import PromptTokensDetails, UsageFields, decode_answer


def test_of_an_answer_its_usage_is_read_and_all_else_skipped() -> None:
    told = decode_answer(
        b'{"id":"c","usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":8}}}'
    )

    assert UsageFields(9, 2, PromptTokensDetails(8)) == told.usage


def test_an_answer_without_usage_tells_none() -> None:
    assert decode_answer(b'{"id":"c"}').usage is None
    assert decode_answer(b'{"usage":null}').usage is None


def test_an_engine_may_leave_out_what_was_cached_and_what_was_generated() -> None:
    """Pooling engines generate nothing."""
    assert UsageFields(9, None, None) == decode_answer(b'{"usage":{"prompt_tokens":9}}').usage
