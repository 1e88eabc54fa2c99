import pytest

from engine_model.request import EngineRequest


def test_the_id_of_a_partial_block_is_dropped() -> None:
    """A trace line of 1,030 tokens in blocks of 512 has two full blocks."""
    request = EngineRequest.from_trace("r", [4, 5, 6], input_length=1030, output_length=7, block_size=512)

    assert EngineRequest("r", 1030, 7, [4, 5]) == request


def test_an_empty_answer_counts_as_one_token() -> None:
    """An engine always generates something."""
    request = EngineRequest.from_trace("r", [], input_length=5, output_length=0, block_size=512)

    assert 1 == request.output_tokens


def test_too_few_ids_are_refused() -> None:
    """A trace line whose ids do not cover its full blocks is malformed."""
    with pytest.raises(ValueError, match="hash_ids has 1 ids, but 1030 tokens have 2 full blocks"):
        EngineRequest.from_trace("r", [4], input_length=1030, output_length=7, block_size=512)


def test_a_request_has_tokens() -> None:
    """A prompt or answer without a token is refused."""
    with pytest.raises(ValueError, match="at least 1, got 0 and 1"):
        EngineRequest("r", 0, 1, [])
