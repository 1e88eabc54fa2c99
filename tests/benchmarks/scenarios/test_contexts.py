import pytest

from benchmarks.scenarios.contexts import BLOCK_TOKENS, Contexts


def contexts(new_share: float = 0.1, live: int = 5, requests: int = 2_000) -> Contexts:
    return Contexts(1_000, live, new_share, requests, question_tokens=(50, 350), answer_tokens=(10, 20))


def shared(blocks: tuple[int, ...]) -> tuple[int, ...]:
    return blocks[:7]


def test_a_prompt_is_a_context_and_a_question_of_its_own() -> None:
    """Full blocks only; those of the question, which begin in the context's last one, are no one else's."""
    trace = contexts().trace(seed=1)
    own = [block for request in trace.requests for block in request.blocks[7:]]

    assert BLOCK_TOKENS == trace.block_tokens
    assert all(request.prompt_tokens // BLOCK_TOKENS == len(request.blocks) for request in trace.requests)
    assert {1_050, 1_350} <= {request.prompt_tokens for request in trace.requests}
    assert len(own) == len(set(own)) > 0
    assert not set(own) & {block for request in trace.requests for block in shared(request.blocks)}


def test_the_share_of_new_contexts_is_what_was_asked_for() -> None:
    seen = {shared(request.blocks) for request in contexts().trace(seed=1).requests}

    assert pytest.approx(205, abs=30) == len(seen)


def test_only_the_newest_contexts_are_asked_about() -> None:
    """Ids rise with the age of a context: none is more than four contexts older than the newest."""
    newest = 4
    for request in contexts().trace(seed=2).requests:
        context = request.blocks[0] // 7
        newest = max(newest, context)
        assert newest - 4 <= context <= newest


def test_with_nothing_but_new_contexts_no_prompt_repeats() -> None:
    """The bound on what routing can gain is nothing then."""
    requests = contexts(new_share=1.0).trace(seed=1).requests

    assert len(requests) == len({shared(request.blocks) for request in requests})


def test_the_same_seed_makes_the_same_requests() -> None:
    assert contexts().trace(seed=7) == contexts().trace(seed=7)
    assert contexts().trace(seed=7) != contexts().trace(seed=8)


@pytest.mark.parametrize(("new_share", "live", "requests"), [(0.0, 5, 10), (1.1, 5, 10), (0.1, 0, 10), (0.1, 5, 0)])
def test_numbers_that_make_no_workload_are_refused(new_share: float, live: int, requests: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        contexts(new_share, live, requests)
