from array import array

from gateway.proxy.continuation.transcript import MAX_IDS, Transcript


def a_transcript(*, keeps_text: bool = True) -> Transcript:
    """Return a transcript with a prompt of two tokens, two settled tokens and one more."""
    transcript = Transcript(keeps_text=keeps_text)
    transcript.begin([1, 2])
    transcript.add([5, 6], "Hi", says=True)
    transcript.settle()
    transcript.add([7], " <", says=True)
    return transcript


def test_a_worker_goes_on_after_the_settled_part() -> None:
    """In ids, in text and in number; all tokens count for the usage."""
    transcript = a_transcript()

    assert ([1, 2, 5, 6], "Hi", 2, 3) == (
        transcript.settled.tolist(),
        transcript.text,
        transcript.settled_tokens,
        transcript.tokens,
    )
    assert transcript.follows([1, 2, 5, 6])
    assert not transcript.follows([1, 2, 5])


def test_the_rest_is_rolled_back() -> None:
    """Another worker generates it again."""
    transcript = a_transcript()
    transcript.roll_back()
    transcript.add([8], "!", says=True)
    transcript.settle()

    assert ([1, 2, 5, 6, 8], "Hi!", 3) == (transcript.settled.tolist(), transcript.text, transcript.tokens)


def test_an_answer_from_the_beginning_has_its_own_prompt() -> None:
    """The number of tokens of the caller's prompt stays that of the first."""
    transcript = a_transcript()
    transcript.restart()

    assert (None, 2, 0) == (transcript.prompt, transcript.prompt_tokens, transcript.tokens)


def test_text_takes_the_place_of_ids() -> None:
    """Settled tokens still count; the next ids follow a prompt that contains them."""
    transcript = a_transcript()
    transcript.leave_ids()
    transcript.begin([1, 2, 3, 4, 5])
    transcript.add([9], " there", says=True)
    transcript.settle()

    assert ("Hi there", 3, 2) == (transcript.text, transcript.settled_tokens, transcript.prompt_tokens)
    assert [1, 2, 3, 4, 5, 9] == transcript.settled.tolist()


def test_text_without_ids_is_counted_by_its_events() -> None:
    """About one token for each event; an event without text does not count."""
    transcript = a_transcript(keeps_text=False)
    transcript.add(None, "a", says=True)
    transcript.add(None, "", says=False)
    transcript.settle()

    assert (False, None, 3, 3, "") == (
        transcript.has_ids,
        transcript.prompt,
        transcript.tokens,
        transcript.settled_tokens,
        transcript.text,
    )


def test_ids_take_four_bytes() -> None:
    """Every vocabulary fits."""
    assert 4 == a_transcript().ids.itemsize
    assert "I" == array("I").typecode


def test_too_many_ids_are_dropped() -> None:
    """Both the prompt and the answer count."""
    long_prompt = Transcript(keeps_text=False)
    long_prompt.begin([1] * (MAX_IDS + 1))
    long_answer = Transcript(keeps_text=False)
    long_answer.begin([1])
    long_answer.add([1] * (MAX_IDS - 1), "a", says=True)

    assert (False, True) == (long_prompt.has_ids, long_answer.has_ids)

    long_answer.add([1], "a", says=True)

    assert (False, 0, 2) == (long_answer.has_ids, len(long_answer.ids), long_answer.tokens)
