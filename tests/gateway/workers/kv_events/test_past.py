"""What the batches that were taken in looked like."""

from gateway.workers.kv_events.past import Past, look_of


def test_it_knows_what_was_noted() -> None:
    """It knows nothing else."""
    past = Past()
    past.note(5, 50)
    past.note(6, 60)

    assert [None, 50, 60, None] == [past.look(seq) for seq in (4, 5, 6, 7)]


def test_it_forgets_the_oldest() -> None:
    """Beyond its capacity."""
    past = Past(3)
    for seq in range(10, 18):
        past.note(seq, 10 * seq)

    assert [None, 150, 160, 170, None] == [past.look(seq) for seq in (14, 15, 16, 17, 18)]


def test_a_gap_begins_it_again() -> None:
    """What came before a gap is not needed any more."""
    past = Past()
    past.note(0, 1)
    past.note(9, 2)

    assert [None, None, 2] == [past.look(seq) for seq in (0, 8, 9)]


def test_looks_are_of_the_content() -> None:
    """Equal payloads look alike, and others do not, also if only their ends differ in length."""
    assert look_of(b"abc") == look_of(bytes(bytearray(b"abc")))
    assert 3 == len({look_of(b"x" * 10_000), look_of(b"x" * 10_001), look_of(b"y" * 10_000)})
