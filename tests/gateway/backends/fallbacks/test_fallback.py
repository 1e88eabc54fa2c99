import pytest

from tests.gateway.backends.fallbacks.examples import a_fallback, a_request


@pytest.mark.parametrize(
    ("prompt", "most", "takes"), [(900.0, 100, True), (901.0, 100, False), (980.0, None, True), (981.0, None, False)]
)
def test_prompt_and_output_have_to_fit(prompt: float, most: int | None, takes: bool) -> None:
    """Where the caller sets no limit, the output that is expected: 20."""
    assert takes == a_fallback(context_tokens=1000).takes(a_request(prompt, most))


def test_output_that_will_be_cut_need_not_fit() -> None:
    fallback = a_fallback(context_tokens=1000, max_output_tokens=100)

    assert fallback.takes(a_request(900.0, 5000))
    assert not fallback.takes(a_request(901.0, 5000))


def test_without_a_known_size_everything_is_tried() -> None:
    assert a_fallback().takes(a_request(1e9))


def test_the_most_that_an_answer_can_have() -> None:
    """The caller's limit, that of the model, and what the prompt leaves: whatever is least."""
    assert 50.0 == a_fallback().output_tokens(a_request(max_tokens=50))
    assert 40.0 == a_fallback(max_output_tokens=40).output_tokens(a_request(max_tokens=50))
    assert 30.0 == a_fallback(context_tokens=130).output_tokens(a_request(100.0, 50))


def test_without_a_limit_of_the_caller_the_one_that_is_sent_in_its_place_counts() -> None:
    """Bedrock reserves it. An endpoint that is sent none will answer about as expected."""
    assert 4096.0 == a_fallback(default_max_tokens=4096).output_tokens(a_request(max_tokens=None))
    assert 20.0 == a_fallback().output_tokens(a_request(max_tokens=None, expected_output_tokens=20.0))


def test_it_is_called_as_its_backend() -> None:
    assert "bedrock:m" == a_fallback().id
