from engine_model.engine import FirstToken, Token
from simulator.bodies import GenerationRequest
from simulator.guides import CallGuide, Function
from simulator.progress import Progress
from simulator.stops import Stops
from simulator.tokens import TokenSequence

PROMPT = TokenSequence.from_text("Once upon a time")


def run(progress: Progress) -> None:
    for request_id, choice in progress.choices.items():
        progress.note(FirstToken(request_id, 0.0, 0))
        for _ in range(len(choice.answer.tokens) - 1):
            progress.note(Token(request_id, 0.0))


def test_each_choice_has_an_answer_of_its_own() -> None:
    """All of their tokens are counted, those of the prompt once."""
    progress = Progress(GenerationRequest(prompts=[PROMPT], max_tokens=[5], choices_per_prompt=2), "a")
    run(progress)

    assert 2 == len({choice.text for choice in progress.whole()})
    assert (len(PROMPT), 10) == (progress.prompt_tokens, progress.usage()["completion_tokens"])
    assert ["length", "length"] == [choice.finish_reason for choice in progress.whole()]


def test_a_stop_string_cuts_tokens_and_text() -> None:
    """The token that completes it is the last."""
    whole = Progress(GenerationRequest(prompts=[PROMPT], max_tokens=[9]), "a")
    run(whole)
    text = whole.whole()[0].text
    cut = Progress(GenerationRequest(prompts=[PROMPT], max_tokens=[9], stops=Stops([text[6:9]])), "a")
    run(cut)

    assert (text[:6], "stop", text[6:9]) == (
        cut.whole()[0].text,
        cut.whole()[0].finish_reason,
        cut.whole()[0].stop_reason,
    )
    assert 3 == cut.generated_tokens


def test_the_arguments_of_a_call_come_behind_its_head() -> None:
    """No piece before has any, and none has text."""
    guide = CallGuide([Function("clock", {"const": {"zone": "UTC"}})])
    progress = Progress(GenerationRequest(prompts=[PROMPT], max_tokens=[99], guide=guide), "a")
    (request_id, choice), *_ = progress.choices.items()
    progress.note(FirstToken(request_id, 0.0, 0))
    first = progress.untold(choice)
    choice.reported = choice.sent
    while not choice.is_complete:
        progress.note(Token(request_id, 0.0))
    rest = progress.untold(choice)

    assert first.call is not None
    assert rest.call is not None
    assert ("", "clock", "", True) == (first.text, first.call.name, first.call.arguments, first.call.is_first)
    assert ("", '{"zone": "UTC"}', False) == (rest.text, rest.call.arguments, rest.call.is_first)
    assert rest.call.id == first.call.id
