from benchmarks.peers.dynamo.decision_trial import Situation
from benchmarks.peers.dynamo.warmgate_decision import Decision, measure_ours
from cache_index.tokens import pack

SITUATION = Situation(seed=1, workers=6, systems=2, blocks=3_000)


def test_each_prompt_goes_where_most_of_it_is() -> None:
    """From a list of ids; what it takes from packed ids and in parts is reported too."""
    found = measure_ours(SITUATION)

    assert 0 == found.wrong
    assert {"turn", "system", "new"} == set(found.decision_us) == set(found.packed_us)
    assert all(part_us > 0 for part_us in found.parts_us.values())


async def test_packed_ids_lead_to_the_same_worker() -> None:
    """A later turn has one worker that has more of it than all others."""
    decision = Decision(SITUATION)
    turn = next(prompt for prompt in SITUATION.prompts if prompt.kind == "turn")
    best = max(turn.held, key=turn.held.__getitem__)

    assert best == await decision.from_ids(turn.token_ids)
    assert best == decision.from_packed(pack(turn.token_ids))
