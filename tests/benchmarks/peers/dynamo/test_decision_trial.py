from benchmarks.peers.dynamo.decision_trial import Situation, measure


def situation() -> Situation:
    return Situation(seed=1, workers=4, systems=2, blocks=3_000)


async def test_anyone_who_sends_each_prompt_where_most_of_it_is_is_never_wrong() -> None:
    """Each kind of prompt has its median."""
    prompts = situation().prompts
    best = {tuple(prompt.token_ids): max(prompt.held, key=prompt.held.__getitem__, default=0) for prompt in prompts}

    async def decide(token_ids: list[int]) -> int:
        return best[tuple(token_ids)]

    found = await measure(decide, prompts)

    assert 0 == found.wrong
    assert {"turn", "system", "new"} == set(found.decision_us) == set(found.p99_us)
    assert all(found.p99_us[kind] >= found.decision_us[kind] > 0 for kind in found.p99_us)


async def test_anyone_who_does_not_look_is_found_out() -> None:
    """For a prompt that no one has, everybody is right."""
    prompts = situation().prompts

    async def decide(_: list[int]) -> int:
        return 99

    assert 0 < (await measure(decide, [prompt for prompt in prompts if prompt.kind == "turn"])).wrong
    assert 0 == (await measure(decide, [prompt for prompt in prompts if prompt.kind == "new"])).wrong


def test_prompts_have_16384_tokens() -> None:
    """25 of each kind."""
    prompts = situation().prompts

    assert {16_384} == {len(prompt.token_ids) for prompt in prompts}
    assert [25, 25, 25] == [sum(prompt.kind == kind for prompt in prompts) for kind in ("turn", "system", "new")]
    assert all(960 == max(prompt.held.values()) for prompt in prompts if prompt.kind == "turn")


def test_both_sides_are_in_the_same_situation() -> None:
    """It is made again from the same numbers in each process."""
    first, again = situation(), situation()

    assert first.reported == again.reported
    assert first.prompts == again.prompts
