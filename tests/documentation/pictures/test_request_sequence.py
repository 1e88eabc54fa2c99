from documentation.pictures.request_sequence import request_sequence


def test_the_retry_comes_before_the_failure_and_the_continuation_after_it() -> None:
    svg = request_sequence()

    assert svg.index("retry on the next worker") < svg.index("worker fails") < svg.index("prompt and tokens 1 to 40")
