"""The order in which things happened, and what is missing of it."""

from typing import Any

from gateway.workers.kv_events.batch_log import Lost, Reset, Step
from gateway.workers.kv_events.frames import BatchMessage
from gateway.workers.kv_events.replay_schedule import ReplayRequest, ReplayTimeouts
from gateway.workers.kv_events.sequencing import Sequencer
from gateway.workers.kv_events.waiting import WaitingRoom

FIRST_TS = 1000.0


def message(seq: int, *, life: int = 1, ts: float | None = None) -> BatchMessage:
    """A batch of that life; lives are an hour apart, batches a second."""
    return BatchMessage(seq, b"life %d batch %d" % (life, seq), 3600.0 * life + seq if ts is None else ts)


def drained(sequencer: Sequencer) -> list[Step | int]:
    """What is to be done, with batches by their sequence."""
    steps: list[Step | int] = [step.seq if isinstance(step, BatchMessage) else step for step in sequencer.steps]
    sequencer.steps.clear()
    return steps


def asked(sequencer: Sequencer) -> ReplayRequest | None:
    """Return the wanted replay."""
    return sequencer.replay_request


def is_behind(sequencer: Sequencer) -> bool:
    return sequencer.is_behind


def replay(sequencer: Sequencer, *seqs: int, life: int = 1, ends: bool = True, now: float = 0.0) -> None:
    """The answers to what is asked for."""
    ask = sequencer.replay_request
    assert ask is not None
    for seq in seqs:
        sequencer.replayed(ask.number, message(seq, life=life), now)
    if ends:
        sequencer.replay_ended(ask.number, now)


def a_sequencer(**changes: Any) -> Sequencer:
    """Connected."""
    sequencer = Sequencer(**{"replays": True} | changes)
    sequencer.connected(0.0)
    return sequencer


def caught_up(*seqs: int, **changes: Any) -> Sequencer:
    """One that has had these batches from a replay."""
    sequencer = a_sequencer(**changes)
    replay(sequencer, *seqs)
    drained(sequencer)
    return sequencer


# ---- beginnings


def test_all_is_asked_for_at_the_beginning() -> None:
    """An idle engine with a full cache would stay unknown else."""
    sequencer = a_sequencer()

    assert ReplayRequest(1, 0) == asked(sequencer)
    assert is_behind(sequencer)
    replay(sequencer, 0, 1, ends=False)
    assert is_behind(sequencer)
    replay(sequencer, 2)
    assert [Reset("complete"), 0, 1, 2] == drained(sequencer)
    assert asked(sequencer) is None
    assert not is_behind(sequencer)


def test_an_engine_may_count_from_one() -> None:
    """The simulator of llm-d does."""
    sequencer = a_sequencer()
    replay(sequencer, 1, 2)

    assert [Reset("complete"), 1, 2] == drained(sequencer)


def test_a_ring_that_has_rolled_over_is_a_part() -> None:
    """It is taken as it is: what it reports is true."""
    sequencer = a_sequencer()
    replay(sequencer, 7, 8)

    assert [Reset("partial"), 7, 8] == drained(sequencer)


def test_an_empty_ring_is_an_engine_that_said_nothing() -> None:
    """All that it will say is heard."""
    sequencer = a_sequencer()
    replay(sequencer)

    assert [Reset("complete")] == drained(sequencer)
    sequencer.live(message(0), 1.0)
    assert [0] == drained(sequencer)


def test_the_first_batch_may_be_number_one() -> None:
    """This shows only when number zero is requested."""
    sequencer = a_sequencer()
    replay(sequencer)
    sequencer.live(message(1), 1.0)

    assert ReplayRequest(2, 0) == asked(sequencer)
    replay(sequencer, 1)
    assert [Reset("complete"), 1] == drained(sequencer)
    assert not is_behind(sequencer)


def test_what_is_published_waits_for_the_replay() -> None:
    """Else older stores would come after younger removals; and what comes twice is taken once."""
    sequencer = a_sequencer()
    for seq in (3, 4, 5):
        sequencer.live(message(seq), 0.0)

    assert [] == drained(sequencer)
    replay(sequencer, 1, 2, 3, 4)
    assert [Reset("complete"), 1, 2, 3, 4, 5] == drained(sequencer)
    assert not is_behind(sequencer)


# ---- the ordinary


def test_batches_in_order() -> None:
    """Are taken as they come."""
    sequencer = caught_up(0)
    for seq in (1, 2, 2, 3, 1):
        sequencer.live(message(seq), 1.0)

    assert [1, 2, 3] == drained(sequencer)
    assert 2 == sequencer.duplicates
    assert asked(sequencer) is None


def test_a_gap_is_asked_for() -> None:
    """From the last that is there, to see that this is the same life."""
    sequencer = caught_up(0, 1)
    sequencer.live(message(4), 1.0)
    sequencer.live(message(5), 1.0)

    assert ReplayRequest(2, 1) == asked(sequencer)
    assert is_behind(sequencer)
    replay(sequencer, 1, 2, 3, 4, 5)
    assert [2, 3, 4, 5] == drained(sequencer)
    assert (1, 0) == (sequencer.gaps, sequencer.lost)
    assert not is_behind(sequencer)


def test_a_gap_can_close_by_itself() -> None:
    """Where messages were only out of order; the replay changes nothing then."""
    sequencer = caught_up(0)
    sequencer.live(message(2), 1.0)
    sequencer.live(message(1), 1.0)

    assert [1, 2] == drained(sequencer)
    replay(sequencer, 0, 1, 2)
    assert [] == drained(sequencer)


def test_silence_is_looked_at() -> None:
    """The last batch before it may have been lost. Nothing is behind meanwhile."""
    sequencer = caught_up(0)
    sequencer.tick(0.5)
    assert asked(sequencer) is None
    sequencer.tick(1.5)

    assert ReplayRequest(2, 0) == asked(sequencer)
    assert not is_behind(sequencer)
    replay(sequencer, 0, 1, now=1.6)
    assert [1] == drained(sequencer)
    sequencer.tick(30.0)
    assert asked(sequencer) is None
    sequencer.tick(31.6)
    assert ReplayRequest(3, 1) == asked(sequencer)


def test_no_one_is_asked_who_speaks() -> None:
    """Missing batches show by themselves then."""
    sequencer = caught_up(0)
    for second in range(1, 100):
        sequencer.live(message(second), float(second))
        sequencer.tick(float(second))

    assert asked(sequencer) is None


def test_a_check_that_fails_says_nothing() -> None:
    """The next one is in time."""
    sequencer = caught_up(0)
    sequencer.tick(1.5)
    sequencer.tick(4.0)

    assert asked(sequencer) is None
    assert [] == drained(sequencer)
    assert not is_behind(sequencer)
    sequencer.tick(40.0)
    assert asked(sequencer) is not None


def test_a_check_that_meets_a_gap_fills_it() -> None:
    """It asks for the same."""
    sequencer = caught_up(0)
    sequencer.tick(1.5)
    sequencer.live(message(2), 1.6)

    assert ReplayRequest(2, 0) == asked(sequencer)
    assert is_behind(sequencer)
    replay(sequencer, 0, 1, 2, now=1.7)
    assert [1, 2] == drained(sequencer)


# ---- loss


def test_what_two_replays_do_not_bring_is_lost() -> None:
    """A batch that could not be encoded has used up its number: it is never asked for again."""
    sequencer = caught_up(0)
    sequencer.live(message(3), 1.0)
    replay(sequencer, 0, 1, 3)
    assert [1] == drained(sequencer)
    replay(sequencer, 1, 3)
    assert [] == drained(sequencer)
    replay(sequencer, 1, 3)

    assert [Lost(1), 3] == drained(sequencer)
    assert 1 == sequencer.lost
    assert asked(sequencer) is None
    sequencer.live(message(4), 2.0)
    assert [4] == drained(sequencer)


def test_several_holes() -> None:
    """One after the other, and then it is over."""
    sequencer = caught_up(0)
    sequencer.live(message(6), 1.0)
    asks = 0
    while sequencer.replay_request is not None:
        replay(sequencer, *(seq for seq in (0, 2, 4, 6) if seq >= sequencer.replay_request.start))
        asks += 1
        assert asks < 10

    assert [Lost(1), 2, Lost(1), 4, Lost(1), 6] == drained(sequencer)


def test_replays_go_on_as_long_as_they_bring_something() -> None:
    """A ROUTER drops what a slow reader does not take, with the end marker."""
    sequencer = a_sequencer()
    replay(sequencer, 0, 1, 2, ends=False)
    sequencer.tick(1.0)
    assert ReplayRequest(1, 0) == asked(sequencer)
    sequencer.tick(2.5)
    assert ReplayRequest(2, 2) == asked(sequencer)
    replay(sequencer, 2, 3, ends=False, now=2.5)
    sequencer.tick(5.0)
    assert ReplayRequest(3, 3) == asked(sequencer)
    replay(sequencer, 3, 4, now=5.0)

    assert [Reset("complete"), 0, 1, 2, 3, 4] == drained(sequencer)
    assert asked(sequencer) is None


def test_a_long_replay_that_ended_is_confirmed() -> None:
    """A ROUTER that dropped the tail of a long replay may still send its end marker."""
    sequencer = a_sequencer()
    replay(sequencer, *range(50))
    assert ReplayRequest(2, 49) == asked(sequencer)
    assert is_behind(sequencer)
    replay(sequencer, 49, *range(50, 60))

    assert [Reset("complete"), *range(60)] == drained(sequencer)
    assert asked(sequencer) is None
    assert not is_behind(sequencer)


def test_a_replay_of_49_batches_is_not_confirmed() -> None:
    """No engine has so small a high-water mark, so nothing of it can have been dropped."""
    sequencer = a_sequencer()
    replay(sequencer, *range(49))

    assert asked(sequencer) is None
    assert not is_behind(sequencer)


def test_a_ring_that_begins_after_what_is_known() -> None:
    """What was not heard are also removals: so all begins again, from what is surely true."""
    sequencer = caught_up(0, 1)
    sequencer.live(message(50), 1.0)
    replay(sequencer, 40, *range(41, 51))

    assert [Reset("partial"), *range(40, 51)] == drained(sequencer)
    assert (1, 0) == (sequencer.rebuilds, sequencer.restarts)


def test_a_ring_that_begins_right_after_what_is_known() -> None:
    """It continues by number, but without the last one there is no telling whose it is."""
    sequencer = caught_up(0, 1)
    sequencer.live(message(4), 1.0)
    replay(sequencer, 2, 3, 4)

    assert [Reset("partial"), 2, 3, 4] == drained(sequencer)


def test_what_found_no_room_is_asked_for_again() -> None:
    """Also if nothing follows it."""
    sequencer = a_sequencer(held=WaitingRoom(max_messages=2))
    for seq in (2, 3, 4):
        sequencer.live(message(seq), 0.0)
    replay(sequencer, 0, 1)

    assert [Reset("complete"), 0, 1, 2, 3] == drained(sequencer)
    assert 1 == sequencer.turned_away
    sequencer.tick(0.1)
    assert ReplayRequest(2, 3) == asked(sequencer)
    replay(sequencer, 3, 4)
    assert [4] == drained(sequencer)


def test_what_waits_in_vain_is_part_of_the_truth() -> None:
    """Where the ring has nothing, though something was published: it is forgetful."""
    sequencer = a_sequencer()
    sequencer.live(message(5), 0.0)
    replay(sequencer)
    replay(sequencer)
    replay(sequencer)

    assert [Reset("complete"), Reset("partial"), 5] == drained(sequencer)
    assert asked(sequencer) is None


# ---- other lives


def test_a_new_life_begins_at_zero() -> None:
    """Without a word, and with an empty cache."""
    sequencer = caught_up(0, 1)
    sequencer.live(message(0, life=2), 1.0)

    assert [Reset("complete", is_new_incarnation=True), 0] == drained(sequencer)
    assert asked(sequencer) is None
    assert 1 == sequencer.restarts


def test_a_new_life_of_which_the_beginning_was_missed() -> None:
    """It is asked for, after all that was known is forgotten."""
    sequencer = caught_up(0, 1, 2)
    sequencer.live(message(2, life=2), 1.0)

    assert [Reset("unreplayed", is_new_incarnation=True)] == drained(sequencer)
    assert ReplayRequest(2, 0) == asked(sequencer)
    replay(sequencer, 0, 1, 2, life=2)
    assert [Reset("complete"), 0, 1, 2] == drained(sequencer)
    assert 1 == sequencer.restarts


def test_a_late_message_of_an_earlier_life() -> None:
    """It is older than all of this life, or than what was taken in last."""
    sequencer = caught_up(0, 1)
    sequencer.live(message(0, life=2), 1.0)
    drained(sequencer)
    for seq in (0, 1, 2):
        sequencer.live(message(seq, life=1), 1.0)

    assert [] == drained(sequencer)
    assert 1 == sequencer.late
    # That with the next number is left to a replay, which knows whose it is.
    assert ReplayRequest(2, 0) == asked(sequencer)
    replay(sequencer, 0, life=2)
    assert [] == drained(sequencer)
    assert 1 == sequencer.restarts


def test_a_clock_that_was_set_back() -> None:
    """What looks late then is confirmed by a replay."""
    sequencer = caught_up(0, 1)
    back = BatchMessage(2, b"set back", 5.0)
    sequencer.live(back, 1.0)
    ask = sequencer.replay_request
    assert ask == ReplayRequest(2, 1)
    sequencer.replayed(2, message(1), 1.0)
    sequencer.replayed(2, back, 1.0)
    sequencer.replay_ended(2, 1.0)
    assert [2] == drained(sequencer)
    sequencer.live(BatchMessage(3, b"from now on", 6.0), 2.0)
    assert [3] == drained(sequencer)


def test_a_new_life_is_seen_by_a_replay() -> None:
    """Where the last batch that is known looks otherwise."""
    sequencer = caught_up(0, 1)
    sequencer.disconnected()
    sequencer.connected(5.0)
    assert ReplayRequest(2, 1) == asked(sequencer)
    assert is_behind(sequencer)
    replay(sequencer, 1, ends=False, life=2)

    assert [Reset("unreplayed", is_new_incarnation=True)] == drained(sequencer)
    assert ReplayRequest(3, 0) == asked(sequencer)
    replay(sequencer, 0, 1, 2, life=2)
    assert [Reset("complete"), 0, 1, 2] == drained(sequencer)


def test_a_new_life_that_has_said_less() -> None:
    """It does not know the last batch."""
    sequencer = caught_up(0, 1, 2)
    sequencer.disconnected()
    sequencer.connected(5.0)
    replay(sequencer)
    assert ReplayRequest(3, 0) == asked(sequencer)
    replay(sequencer, 0, life=2)

    assert [Reset("unreplayed", is_new_incarnation=True), Reset("complete"), 0] == drained(sequencer)


def test_the_same_life_after_an_interruption() -> None:
    """What was published meanwhile is replayed, and nothing is forgotten."""
    sequencer = caught_up(0, 1)
    sequencer.disconnected()
    sequencer.live(message(2), 4.0)
    sequencer.connected(5.0)
    sequencer.live(message(4), 5.0)
    assert [] == drained(sequencer)
    replay(sequencer, 1, 2, 3)

    assert [2, 3, 4] == drained(sequencer)
    assert (0, 0, 1) == (sequencer.restarts, sequencer.rebuilds, sequencer.late)


def test_a_message_of_a_new_life_may_wait() -> None:
    """While a replay of the former one is still running."""
    sequencer = caught_up(0, 1)
    sequencer.live(message(3), 1.0)
    replay(sequencer, 1, 2, ends=False)
    sequencer.disconnected()
    sequencer.connected(2.0)
    sequencer.live(message(0, life=2), 2.0)
    replay(sequencer, 2)

    assert [2, 3, Reset("complete", is_new_incarnation=True), 0] == drained(sequencer)


def test_answers_to_former_questions_are_ignored() -> None:
    """They may be of another life."""
    sequencer = a_sequencer()
    sequencer.disconnected()
    sequencer.connected(1.0)
    sequencer.replayed(1, message(0), 1.0)
    sequencer.replay_ended(1, 1.0)
    sequencer.replay_broke(1, 1.0)

    assert [] == drained(sequencer)
    assert ReplayRequest(2, 0) == asked(sequencer)


def test_an_engine_that_keeps_nothing() -> None:
    """With buffer_steps 0 it never knows anything, which says nothing in the middle of a connection."""
    sequencer = a_sequencer()
    replay(sequencer)
    sequencer.live(message(0), 0.0)
    drained(sequencer)
    sequencer.tick(31.0)
    replay(sequencer)
    sequencer.rebuild(40.0)
    replay(sequencer)

    assert [] == drained(sequencer)
    assert 0 == sequencer.restarts
    sequencer.live(message(1), 41.0)
    assert [1] == drained(sequencer)


def test_batches_without_a_time() -> None:
    """Their numbers have to do."""
    sequencer = a_sequencer()
    replay(sequencer)
    for seq in (0, 1):
        sequencer.live(BatchMessage(seq, b"%d" % seq, None), 0.0)
    sequencer.live(BatchMessage(1, b"other", None), 0.0)

    assert [Reset("complete"), 0, 1, Reset("unreplayed", is_new_incarnation=True)] == drained(sequencer)


# ---- replays that do not work


def test_replays_are_given_up() -> None:
    """After three attempts; what is published is better than nothing, and they are tried again later."""
    sequencer = a_sequencer()
    sequencer.live(message(5), 0.0)
    now = 0.0
    while now < 20.0:
        now += 0.5
        sequencer.tick(now)

    assert 3 == sequencer.replays_started
    assert [Reset("unreplayed"), 5] == drained(sequencer)
    assert not is_behind(sequencer)
    sequencer.live(message(6), now)
    assert [6] == drained(sequencer)
    while sequencer.replay_request is None or sequencer.replay_request.start > 0:
        now += 0.5
        sequencer.tick(now)
    assert 60.0 < now < 90.0
    replay(sequencer, 4, 5, 6, now=now)
    assert [Reset("partial"), 4, 5, 6] == drained(sequencer)


def test_a_retry_can_work() -> None:
    """Nothing is lost then."""
    sequencer = a_sequencer()
    sequencer.tick(2.5)
    assert asked(sequencer) is None
    assert is_behind(sequencer)
    sequencer.tick(4.0)
    replay(sequencer, 0, now=4.0)

    assert [Reset("complete"), 0] == drained(sequencer)


def test_given_up_before_anything_was_said() -> None:
    """The first that is heard is the first; as number 0 it is that of all."""
    for seq, knowledge in ((0, "complete"), (3, "unreplayed")):
        sequencer = a_sequencer()
        for _ in range(3):
            sequencer.replay_broke(sequencer.replay_request.number if sequencer.replay_request else 0, 0.0)
            sequencer.tick(100.0)
        if sequencer.replay_request is not None:
            sequencer.replay_broke(sequencer.replay_request.number, 100.0)
        assert not is_behind(sequencer)
        sequencer.live(message(seq), 101.0)

        assert [Reset(knowledge), seq] == drained(sequencer)  # type: ignore[arg-type]


def test_given_up_after_an_interruption() -> None:
    """The incarnation cannot be verified, so something may be lost."""
    sequencer = caught_up(0, 1)
    sequencer.disconnected()
    sequencer.connected(1.0)
    sequencer.live(message(2), 1.0)
    sequencer.live(message(5), 1.0)
    for now in (4.0, 6.0, 9.0, 12.0, 15.0):
        sequencer.tick(now)

    assert [Lost(0), 2, Lost(2), 5] == drained(sequencer)


def test_a_rebuild_that_does_not_work_changes_nothing() -> None:
    """Messages that waited meanwhile are taken in."""
    sequencer = caught_up(0)
    sequencer.rebuild(1.0)
    sequencer.live(message(1), 1.0)
    assert [] == drained(sequencer)
    for now in (4.0, 6.0, 9.0, 12.0, 15.0):
        sequencer.tick(now)

    assert [1] == drained(sequencer)
    assert not is_behind(sequencer)


def test_a_rebuild_begins_with_the_first_answer() -> None:
    """From the ring, as it is now."""
    sequencer = caught_up(0, 1)
    sequencer.rebuild(1.0)
    sequencer.live(message(2), 1.0)
    assert ReplayRequest(2, 0) == asked(sequencer)
    assert [] == drained(sequencer)
    replay(sequencer, 0, 1, 2)

    assert [Reset("complete"), 0, 1, 2] == drained(sequencer)
    assert 1 == sequencer.rebuilds


def test_a_rebuild_waits_for_a_connection() -> None:
    """It is not forgotten."""
    sequencer = caught_up(0, 1)
    sequencer.disconnected()
    sequencer.rebuild(1.0)
    assert asked(sequencer) is None
    sequencer.connected(2.0)

    assert ReplayRequest(2, 0) == asked(sequencer)
    replay(sequencer)
    assert [Reset("unreplayed", is_new_incarnation=True)] == drained(sequencer)


def test_a_rebuild_of_nothing() -> None:
    """An engine that has said nothing is known completely."""
    sequencer = caught_up()
    sequencer.rebuild(1.0)
    replay(sequencer)

    assert [Reset("complete")] == drained(sequencer)


def test_what_is_reassured_is_not_begun_again() -> None:
    """A partial ring would know less."""
    sequencer = a_sequencer()
    for now in (2.5, 4.0, 6.5, 9.0, 11.5):
        sequencer.tick(now)
    sequencer.cancel_rebuild()
    for now in range(12, 2000):
        sequencer.live(message(now), float(now))
        sequencer.tick(float(now))

    assert 3 == sequencer.replays_started


# ---- without replays


def unreplayed() -> Sequencer:
    return a_sequencer(replays=False)


def test_without_replays_the_first_is_where_it_begins() -> None:
    """Number 0 is the beginning of all; number 1 may be the second."""
    for seq, knowledge in ((0, "complete"), (1, "unreplayed"), (7, "unreplayed")):
        sequencer = unreplayed()
        assert not is_behind(sequencer)
        sequencer.live(message(seq), 0.0)

        assert [Reset(knowledge), seq] == drained(sequencer)  # type: ignore[arg-type]
        assert asked(sequencer) is None


def test_without_replays_a_gap_is_a_loss() -> None:
    """A message that comes too late is ignored."""
    sequencer = unreplayed()
    for seq in (0, 3, 2, 4, 4):
        sequencer.live(message(seq), 0.0)

    assert [Reset("complete"), 0, Lost(2), 3, 4] == drained(sequencer)
    assert (1, 2, 1, 1) == (sequencer.gaps, sequencer.lost, sequencer.late, sequencer.duplicates)


def test_without_replays_a_new_life_is_seen_by_its_number() -> None:
    """Wherever it is by then."""
    sequencer = unreplayed()
    for life, seq in ((1, 0), (1, 1), (2, 1), (2, 2), (3, 0)):
        sequencer.live(message(seq, life=life), 0.0)

    assert [
        *(Reset("complete"), 0, 1),
        *(Reset("unreplayed", is_new_incarnation=True), 1, 2),
        *(Reset("complete", is_new_incarnation=True), 0),
    ] == drained(sequencer)


def test_without_replays_a_late_message_is_dropped() -> None:
    """One of an earlier life can have any number."""
    sequencer = unreplayed()
    sequencer.live(message(0, life=2), 0.0)
    sequencer.live(message(1, life=1), 0.0)
    sequencer.live(message(9, life=1), 0.0)

    assert [Reset("complete"), 0] == drained(sequencer)
    assert 2 == sequencer.late


def test_without_replays_an_interruption_leaves_doubt() -> None:
    """What continues by number may be another life all the same, and what does not probably is."""
    for seq, steps in ((1, [Lost(0), 1]), (5, [Reset("unreplayed"), 5])):
        sequencer = unreplayed()
        sequencer.live(message(0), 0.0)
        drained(sequencer)
        sequencer.disconnected()
        sequencer.connected(1.0)
        sequencer.live(message(seq), 1.0)

        assert steps == drained(sequencer)


def test_without_replays_messages_reveal_the_connection() -> None:
    """Where no one else does."""
    sequencer = Sequencer(replays=False, timeouts=ReplayTimeouts())
    sequencer.live(message(0), 0.0)
    sequencer.tick(1000.0)
    sequencer.rebuild(1000.0)

    assert [Reset("complete"), 0] == drained(sequencer)
    assert asked(sequencer) is None
