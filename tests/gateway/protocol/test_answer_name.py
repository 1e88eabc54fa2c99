"""The model's name in answers."""

from gateway.protocol.answer_name import MAX_NAME_LENGTH, AnswerName, answer_name


def test_a_whole_answer_names_the_model_that_was_asked_for() -> None:
    """All other bytes stay as they came."""
    body = b'{"id": "a",  "model":"tiny", "choices":[{"message":{"content":"\\"model\\":\\"tiny\\""}}]}'

    assert body.replace(b'"model":"tiny"', b'"model":"gpt-4o"') == AnswerName("gpt-4o").whole(body)


def test_an_answer_without_a_model_stays_as_it_is() -> None:
    """A transcription has none, and a list is no object."""
    for body in (b'{"text":"hi"}', b"[1]", b"plain"):
        assert body == AnswerName("gpt-4o").whole(body)


def test_every_event_names_the_model_that_was_asked_for() -> None:
    """Text that looks the same has its quotes escaped, and the end of the stream names nothing."""
    data = (
        b'data: {"id":"a","model":"tiny","choices":[{"delta":{"content":"\\"model\\":\\"tiny\\""}}]}\n\n'
        b'data: {"model": "ti\\"ny"}\n\ndata: [DONE]\n\n'
    )

    assert (
        b'data: {"id":"a","model":"gpt-4o","choices":[{"delta":{"content":"\\"model\\":\\"tiny\\""}}]}\n\n'
        b'data: {"model":"gpt-4o"}\n\ndata: [DONE]\n\n'
    ) == AnswerName("gpt-4o").events(data)


def test_only_the_first_model_of_an_event_is_named() -> None:
    """What a caller put into the metadata of its response is its own."""
    data = b'data: {"response":{"model":"tiny","metadata":{"model":"tiny"}}}\n\n'

    assert b'data: {"response":{"model":"a\\\\b","metadata":{"model":"tiny"}}}\n\n' == AnswerName("a\\b").events(data)


def test_nothing_is_renamed_where_the_backend_uses_the_same_name() -> None:
    assert answer_name("tiny", "tiny", fell_back=False) is None
    assert answer_name("tiny", "tiny", fell_back=True) is not None
    assert answer_name("gpt-4o", "tiny", fell_back=False) is not None


def test_a_name_that_is_too_long_is_put_nowhere() -> None:
    """An alias with a star admits it, and a stream would repeat it with every event."""
    assert answer_name("g" * MAX_NAME_LENGTH, "tiny", fell_back=False) is not None
    assert answer_name("g" * (MAX_NAME_LENGTH + 1), "tiny", fell_back=False) is None
