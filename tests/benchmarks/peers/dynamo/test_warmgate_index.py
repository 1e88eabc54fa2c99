from benchmarks.peers.dynamo.index_trial import measure
from benchmarks.peers.dynamo.warmgate_index import EventIndex


def test_our_index_answers_what_the_caches_hold() -> None:
    """From the bytes that vLLM sends: stored in runs and one by one, removed in both ways."""
    reported = EventIndex()
    found = measure(reported, seed=1, workers=6, systems=2, blocks=8_000)

    assert 0 == found.wrong
    assert found.removed.blocks > 0
    reported.residency._check()
