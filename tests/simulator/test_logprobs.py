from simulator.logprobs import chat_logprobs, completion_logprobs, token_logprobs
from simulator.tokens import TokenSequence

IDS = list(TokenSequence.from_text("that rest").ids)


def test_log_probabilities_depend_on_two_tokens_only() -> None:
    whole = token_logprobs(IDS, before=5, others=3)
    rest = token_logprobs(IDS[1:], before=IDS[0], others=3)

    assert [(token.chosen, token.others) for token in whole[1:]] == [(token.chosen, token.others) for token in rest]
    assert [0, 4, 8] == [token.offset for token in whole]
    assert {3} == {len(token.others) for token in whole}


def test_both_shapes() -> None:
    """A completion always has the chosen token among the likeliest, a chat has as many as are asked for."""
    tokens = token_logprobs(IDS[:1], before=5, others=0)

    assert None is chat_logprobs(None, 0)
    assert None is completion_logprobs(None, 0)
    (token,) = (chat_logprobs(tokens, 0) or {})["content"]
    assert ("that", [116, 104, 97, 116], []) == (token["token"], token["bytes"], token["top_logprobs"])
    assert token["logprob"] < 0
    completion = completion_logprobs(tokens, 0) or {}
    assert [{"that": token["logprob"]}] == completion["top_logprobs"]
    assert (["that"], [0], [token["logprob"]]) == (
        completion["tokens"],
        completion["text_offset"],
        completion["token_logprobs"],
    )
