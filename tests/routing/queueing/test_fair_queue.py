"""The order by class, by team, and within a team by rank."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.queueing.fair_queue import Fairness, FairQueue
from routing.queueing.waiting import Waiting
from routing.request import BATCH, HIGH, LOW, NORMAL, Request
from tests.routing.examples import a_request


def waits(
    team: str,
    cost_s: float = 1.0,
    *,
    since: float = 0.0,
    weight: float = 1.0,
    priority: int = NORMAL,
    deadline_s: float | None = None,
    spill_in_s: float | None = None,
) -> Waiting:
    request = a_request().changed(
        team=team, weight=weight, priority=priority, deadline_s=deadline_s, spill_in_s=spill_in_s
    )
    each = Waiting(request, since, begins_session=False)
    each.min_s = each.cost_s = cost_s
    return each


def cheap_first(each: Waiting) -> tuple[bool, float]:
    return True, each.cost_s


def by_coming(each: Waiting) -> tuple[bool, float]:
    return True, each.since


def saw(queue: FairQueue, per_s: float) -> None:
    """Ten seconds before, in which the fleet did as much."""
    other = waits("green")
    queue.add(other, -10.0)
    queue.passed(is_saturated=True)
    queue.served("green", NORMAL, 1.0, 10.0 * per_s, -10.0)
    queue.served("green", NORMAL, 1.0, 1.0, 0.0)
    queue.remove(other.request)


class Line:
    """A queue from which one after the other is served, each for as long as it costs."""

    def __init__(self, *waiting: Waiting, **rules: float) -> None:
        self.queue = FairQueue(Fairness(**rules))  # type: ignore[arg-type]
        self.now = 0.0
        self.served: list[Waiting] = []
        for each in waiting:
            self.queue.add(each, 0.0)

    def serve(self) -> Waiting:
        each = next(self.queue.in_order(self.now, cheap_first))
        request = each.request
        self.queue.served(request.team, each.level, request.weight, each.cost_s, self.now)
        self.queue.remove(request)
        self.queue.passed(is_saturated=True)
        self.served.append(each)
        self.now += each.cost_s
        return each

    def serve_for(self, seconds: float) -> Counter[str]:
        """Seconds that each team got, where all that was served is replaced by the same again."""
        got: Counter[str] = Counter()
        while self.now < seconds:
            each = self.serve()
            got[each.team] += each.cost_s  # type: ignore[assignment]
            again = Waiting(each.request.changed(), self.now, begins_session=False)
            again.min_s = again.cost_s = each.cost_s
            self.queue.add(again, self.now)
        return got


class TestTeams:
    def test_teams_take_turns_however_many_requests_they_have(self) -> None:
        """Nine of blue came first, one of red goes second."""
        line = Line(*(waits("blue") for _ in range(9)), waits("red"))

        assert ["blue", "red", "blue"] == [line.serve().team for _ in range(3)]

    def test_what_counts_is_what_requests_cost(self) -> None:
        """One of blue is as much as four of red."""
        line = Line(*(waits("blue", 4.0) for _ in range(3)), *(waits("red") for _ in range(9)))

        assert ["blue", *"red " * 0, "red", "red", "red", "red", "blue"] == [line.serve().team for _ in range(6)]

    def test_weights_are_shares(self) -> None:
        """Three to one."""
        got = Line(*(waits("blue", weight=3.0) for _ in range(5)), *(waits("red") for _ in range(5))).serve_for(400.0)

        assert 300 == pytest.approx(got["blue"], abs=2)

    def test_a_sparse_team_waits_for_what_runs_and_nothing_else(self) -> None:
        """Whatever blue has had, and has waiting, before."""
        line = Line(*(waits("blue", 2.0) for _ in range(50)))
        for _ in range(20):
            line.serve()
        line.queue.add(waits("red", since=line.now), line.now)

        assert "red" == line.serve().team

    def test_who_was_idle_has_saved_nothing(self) -> None:
        """Red comes back after a long time: it gets its half, not all."""
        line = Line(*(waits("blue") for _ in range(5)), waits("red"))
        line.queue.remove(next(each for each in line.queue if each.team == "red").request)
        line.serve_for(100.0)
        for _ in range(5):
            line.queue.add(waits("red", since=line.now), line.now)
        got = line.serve_for(200.0)

        assert 50 == pytest.approx(got["red"], abs=1)

    def test_what_is_sent_at_once_counts(self) -> None:
        """While no team waits, all are served at once: then blue is one request ahead of red."""
        line = Line()
        line.queue.served("blue", NORMAL, 1.0, 1.0, 0.0)
        for team in ("blue", "red"):
            line.queue.add(waits(team), 0.0)

        assert ["red", "blue"] == [line.serve().team for _ in range(2)]

    def test_what_passes_those_who_wait_counts_too(self) -> None:
        """It was for a worker that none of them could use; its team has no one waiting."""
        line = Line(waits("blue"), waits("red"))
        line.queue.served("green", NORMAL, 1.0, 5.0, 0.0)
        line.queue.add(waits("green"), 0.0)

        assert ["blue", "red", "green"] == [line.serve().team for _ in range(3)]

    def test_the_order_in_a_team_is_the_one_asked_for(self) -> None:
        """Here what is cheap goes first."""
        line = Line(waits("blue", 3.0), waits("blue", 1.0), waits("blue", 2.0))

        assert [1.0, 2.0, 3.0] == [line.serve().cost_s for _ in range(3)]

    def test_what_was_given_and_not_sent_counts_in_what_follows(self) -> None:
        """Its worker is not free; the next in turn is of another team."""
        queue = Line(waits("blue"), waits("blue"), waits("red")).queue
        given = queue.in_order(0.0, by_coming)

        assert ["blue", "red", "blue"] == [each.team for each in given]
        assert 3 == len(queue)


class TestClasses:
    def test_the_high_class_goes_first(self) -> None:
        """The first arrival goes first."""
        line = Line(waits("red"), waits("blue", priority=HIGH), low_share=0.0)

        assert ["blue", "red"] == [line.serve().team for _ in range(2)]

    def test_those_below_have_a_share(self) -> None:
        """A tenth of what is served, of which those at the bottom have a tenth again."""
        classes = {"high": HIGH, "normal": NORMAL, "low": LOW}
        line = Line(
            *(waits(team, priority=level) for team, level in classes.items() for _ in range(3)), starvation_s=1e9
        )
        got = line.serve_for(2000.0)

        assert 1800 == pytest.approx(got["high"], abs=5)
        assert 180 == pytest.approx(got["normal"], abs=5)
        assert 20 == pytest.approx(got["low"], abs=5)

    def test_the_share_is_that_of_the_highest_that_waits(self) -> None:
        """No class between them waits: low has the whole tenth."""
        line = Line(*(waits(f"team {level}", priority=level) for level in (HIGH, LOW) for _ in range(3)))

        assert 50 == pytest.approx(line.serve_for(500.0)["team 0"], abs=2)

    def test_a_team_of_which_nothing_is_served_is_put_higher(self) -> None:
        """Once in that time, with its oldest request."""
        line = Line(
            *(waits("high", priority=HIGH) for _ in range(3)),
            *(waits("low", cost_s, priority=NORMAL) for cost_s in (2.0, 1.0)),
            low_share=0.001,
            starvation_s=30.0,
        )
        line.queue.served("low", NORMAL, 1.0, 1.0, 0.0)
        line.serve_for(95.0)
        low = [each.cost_s for each in line.served if each.team == "low"]

        assert 2.0 == low[0]
        assert 3 == len(low)

    def test_a_flood_is_not_put_higher_for_having_waited(self) -> None:
        """Each of its requests waits for long, but some are served all the time."""
        line = Line(*(waits("flood") for _ in range(200)), starvation_s=30.0)
        for _ in range(60):
            line.serve()
        line.queue.add(waits("sparse", since=line.now), line.now)

        assert {NORMAL} == {each.level for each in line.queue}
        assert "sparse" == line.serve().team


class TestBounds:
    def test_a_team_has_no_more_waiting_than_it_may(self) -> None:
        """Another one has room. It can try again when the first of its own was sent."""
        line = Line(*(waits("blue", 3.0) for _ in range(4)), max_waiting_per_team=4)
        refusal = line.queue.refusal(waits("blue", 3.0), by_coming, servers=2)

        assert refusal is not None
        assert ("queue full", 6.0, 1.5) == (refusal.why, refusal.wait_s, refusal.retry_after_s)
        assert line.queue.refusal(waits("red", 3.0), by_coming, servers=2) is None

    def test_a_team_without_any_room_gets_an_answer_too(self) -> None:
        """None of its requests wait."""
        refusal = Line(max_waiting_per_team=0).queue.refusal(waits("blue", 0.1), by_coming, servers=0)

        assert refusal is not None
        assert (0.0, 1.0) == (refusal.wait_s, refusal.retry_after_s)

    def test_who_cannot_be_served_in_time_is_refused(self) -> None:
        """12 s of its team are before it, on two workers; the caller waits for 5 s, of which its own work takes 1."""
        line = Line(*(waits("blue", 3.0) for _ in range(4)))
        saw(line.queue, 2.0)
        refusal = line.queue.refusal(waits("blue", deadline_s=5.0), by_coming, servers=1)

        assert refusal is not None
        assert ("too late", 6.0, 2.0) == (refusal.why, refusal.wait_s, refusal.retry_after_s)
        assert line.queue.refusal(waits("blue", deadline_s=7.0), by_coming, servers=1) is None
        assert line.queue.refusal(waits("blue"), by_coming, servers=1) is None

    def test_no_one_is_too_late_for_a_speed_that_no_one_saw(self) -> None:
        """An hour of work is before it, on one worker; but the fleet was seen for a moment, and may be faster."""
        line = Line(*(waits("blue", 900.0) for _ in range(4)))
        saw(line.queue, 0.4)

        assert line.queue.refusal(waits("blue", deadline_s=5.0), by_coming, servers=1) is None

    def test_who_waited_for_what_was_sent_before_spoils_no_prediction(self) -> None:
        """It cost 0.05 s and waited for 3 s behind others; a second of work is not 60 s away for that."""
        line = Line(waits("blue", 0.05), waits("blue", 0.5), waits("blue", 0.5), max_waiting_per_team=2)
        line.queue.passed(is_saturated=True)
        line.now = 3.0
        line.serve()
        refusal = line.queue.refusal(waits("blue", 0.5), by_coming, servers=1)

        assert refusal is not None
        assert ("queue full", 1.0, 1.0) == (refusal.why, refusal.wait_s, refusal.retry_after_s)

    def test_what_is_done_while_a_worker_is_free_shows_nothing(self) -> None:
        """The waiting request is pinned elsewhere, so little work is done because little is needed."""
        queue = Line(waits("blue", 1.0), waits("blue", 1.0), max_waiting_per_team=2).queue
        queue.passed(is_saturated=True)
        queue.passed(is_saturated=False)
        for second in range(60):
            queue.served("red", NORMAL, 1.0, 0.1, float(second))
        refusal = queue.refusal(waits("blue"), by_coming, servers=2)

        assert refusal is not None
        assert 1.0 == refusal.wait_s

    def test_a_prompt_that_is_believed_to_take_too_long_is_not_refused_for_that(self) -> None:
        """The belief may be wrong: a fifth of its time may be waited, 2 s, and 1 s is before it."""
        line = Line(waits("blue", 2.0))
        saw(line.queue, 2.0)

        assert line.queue.refusal(waits("blue", 50.0, deadline_s=10.0), by_coming, servers=2) is None
        assert line.queue.refusal(waits("blue", 50.0, deadline_s=4.0), by_coming, servers=2) is not None

    def test_what_is_behind_it_does_not_count(self) -> None:
        """It is cheaper than all that wait."""
        line = Line(*(waits("blue", 3.0) for _ in range(4)))
        saw(line.queue, 2.0)

        assert line.queue.refusal(waits("blue", deadline_s=2.0), cheap_first, servers=2) is None

    def test_teams_that_wait_beside_it_take_their_shares(self) -> None:
        """Three times its weight: it waits four times as long, but no longer than all the work there is."""
        line = Line(*(waits("blue", 1.0) for _ in range(3)), *(waits("red", 5.0, weight=3.0) for _ in range(10)))
        short = Line(*(waits("blue", 1.0) for _ in range(3)), waits("red", 1.0, weight=3.0))
        for each in (line, short):
            saw(each.queue, 1.0)
        refusal = line.queue.refusal(waits("blue", deadline_s=2.0), by_coming, servers=1)
        other = short.queue.refusal(waits("blue", deadline_s=2.0), by_coming, servers=1)

        assert refusal is not None
        assert other is not None
        assert (12.0, 4.0) == (refusal.wait_s, other.wait_s)

    def test_a_lower_class_waits_for_its_share(self) -> None:
        """A tenth of the 1 s of work before it is done in each second."""
        line = Line(*(waits("high", 100.0, priority=HIGH) for _ in range(3)), waits("low", priority=LOW))
        saw(line.queue, 1.0)
        refusal = line.queue.refusal(waits("low", priority=LOW, deadline_s=2.0), by_coming, servers=1)

        assert refusal is not None
        assert 10.0 == pytest.approx(refusal.wait_s)

    def test_waits_are_predicted_by_what_is_seen_to_get_done(self) -> None:
        """Half of what was believed: the wait is twice as long."""
        line = Line(*(waits("blue", 1.0) for _ in range(20)))
        line.queue.passed(is_saturated=True)
        for second in range(10):
            each = next(iter(line.queue))
            line.queue.served("blue", NORMAL, 1.0, 1.0, 2.0 * second)
            line.queue.remove(each.request)
        refusal = line.queue.refusal(waits("blue", deadline_s=2.0), by_coming, servers=1)

        assert refusal is not None
        assert 20.0 == pytest.approx(refusal.wait_s)

    def test_who_has_gone_is_not_served(self) -> None:
        """Its caller said how long it would wait."""
        line = Line(waits("blue", deadline_s=3.0), waits("red", deadline_s=8.0), waits("red"))
        assert [] == line.queue.given_up(2.9)
        (gone,) = line.queue.given_up(3.5)

        assert ("blue", "too late", 3.5) == (gone.request.team, gone.why, gone.wait_s)
        assert {"red": 2} == line.queue.by_team
        assert 1 == len(line.queue.given_up(8.0))
        assert [] == line.queue.given_up(100.0)


def test_who_leaves_is_not_counted_any_more() -> None:
    """A request cannot leave twice."""
    blue, red = waits("blue"), waits("red")
    queue = Line(blue, red).queue

    assert blue is queue.remove(blue.request)
    assert queue.remove(blue.request) is None
    assert ({"red": 1}, [red], 1) == (queue.by_team, list(queue), len(queue))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0.2, 5.0), st.floats(0.1, 4.0)), min_size=2, max_size=5),
    st.integers(0, 2**32),
)
def test_a_team_that_always_waits_has_its_share(teams: list[tuple[float, float]], seed: int) -> None:
    """Whatever the others weigh and cost: never less than its share, but for two requests of the greatest there are."""
    rng = random.Random(seed)
    line = Line()

    def ask(number: int) -> None:
        weight, most_s = teams[number]
        each = waits(str(number), rng.uniform(0.05, most_s), since=line.now, weight=weight)
        line.queue.add(each, line.now)

    for number in range(len(teams)):
        for _ in range(3):
            ask(number)
    got = [0.0] * len(teams)
    for _ in range(300):
        each = line.serve()
        got[int(each.team)] += each.cost_s
        ask(int(each.team))
    everything_s, weights = sum(got), sum(weight for weight, _ in teams)
    greatest_s = max(most_s for _, most_s in teams)

    for number, (weight, _) in enumerate(teams):
        slack_s = 2.0 * greatest_s * max(1.0, weight / min(weight for weight, _ in teams)) * len(teams)
        assert got[number] >= everything_s * weight / weights - slack_s


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(LOW, HIGH), st.floats(0.1, 5.0), st.booleans()), max_size=40))
def test_everybody_is_given_once(asked: list[tuple[int, int, float, bool]]) -> None:
    """This holds with requests that leave or move up meanwhile."""
    line = Line(starvation_s=5.0)
    staying: list[Request] = []
    for team, priority, cost_s, stays in asked:
        each = waits(f"team {team}", cost_s, priority=priority)
        line.queue.add(each, 0.0)
        if stays:
            staying.append(each.request)
        else:
            line.queue.remove(each.request)
    given_ = [each.request for each in line.queue.in_order(6.0, cheap_first)]

    assert sorted(map(id, staying)) == sorted(map(id, given_))
    assert len(staying) == sum(line.queue.by_team.values())
    while len(line.queue):
        line.serve()
    assert {} == line.queue.by_team


class TestOwed:
    def owed(self, queue: FairQueue) -> list[tuple[str, float]]:
        return [(each.team, each.cost_s) for each in queue.owed(cheap_first)]

    def test_the_first_of_each_team_that_has_had_less_than_others(self) -> None:
        """Blue was served; red and green were not."""
        queue = FairQueue()
        queue.served("blue", NORMAL, 1.0, 5.0, 0.0)
        for team, cost_s in (("blue", 1.0), ("red", 2.0), ("red", 1.0), ("green", 3.0)):
            queue.add(waits(team, cost_s), 0.0)

        assert [("red", 1.0), ("green", 3.0)] == self.owed(queue)

    def test_no_one_below_the_highest_class_that_was_ever_served(self) -> None:
        """One of it may come at any moment, and goes before them."""
        queue = FairQueue()
        queue.add(waits("blue"), 0.0)
        assert [("blue", 1.0)] == self.owed(queue)
        queue.served("red", HIGH, 1.0, 1.0, 0.0)
        assert [] == self.owed(queue)
        queue.add(waits("green", priority=HIGH), 0.0)

        assert [("green", 1.0)] == self.owed(queue)

    def test_no_request_is_owed_in_an_empty_queue(self) -> None:
        """No request has been served."""
        assert [] == self.owed(FairQueue())


class TestSpill:
    def test_who_may_not_go_elsewhere_stays(self) -> None:
        """However long it waits."""
        queue = FairQueue()
        each = waits("blue")
        queue.add(each, 0.0)

        assert not queue.may_spill
        assert [] == queue.spill_all(1000.0, by_coming, servers=1)
        assert queue.spill(each, 1000.0, by_coming, servers=1) is None
        assert 1 == len(queue)

    def test_as_long_as_nothing_is_known_only_time_counts(self) -> None:
        """Ten wait before it, but who knows how fast they are done? Of its four seconds, one is its own work."""
        queue = FairQueue()
        for _ in range(10):
            queue.add(waits("blue"), 0.0)
        each = waits("blue", since=1.0, spill_in_s=4.0)
        queue.add(each, 1.0)

        assert [] == queue.spill_all(4.0, by_coming, servers=1)
        assert queue.spill(each, 4.0, by_coming, servers=1) is None
        refusal = queue.spill(each, 4.1, by_coming, servers=1)
        assert refusal is not None
        assert (each.request, "spill", 1.0) == (refusal.request, refusal.why, refusal.retry_after_s)
        assert pytest.approx(3.1) == refusal.wait_s
        assert (10, False) == (len(queue), queue.may_spill)

    def test_once_it_is_known_who_would_be_late_goes_at_once(self) -> None:
        """A second of work a second is done, and each of ten is as much. They want a first token in five: those go who
        would wait for more than four. Who stays does not wait for them.
        """
        queue = FairQueue()
        saw(queue, 1.0)
        for number in range(10):
            queue.add(waits("blue", since=0.001 * number, spill_in_s=5.0), 0.0)
        refusals = queue.spill_all(0.1, by_coming, servers=1)

        assert (6, 4) == (len(refusals), len(queue))
        assert [] == queue.spill_all(0.1, by_coming, servers=1)

    def test_one_is_looked_at_as_all_are(self) -> None:
        """The first four would stay, the sixth is too late."""
        queue = FairQueue()
        saw(queue, 1.0)
        each = [waits("blue", since=0.001 * number, spill_in_s=5.0) for number in range(6)]
        for one in each:
            queue.add(one, 0.0)

        assert queue.spill(each[3], 0.1, by_coming, servers=1) is None
        assert queue.spill(each[5], 0.1, by_coming, servers=1) is not None

    def test_every_team_waits_for_its_own_share(self) -> None:
        """Half of what is done is red's: its second request would wait for two seconds, and its prompt takes one."""
        queue = FairQueue()
        saw(queue, 1.0)
        for team, spill_in_s in (("blue", None), ("red", 2.5), ("blue", None), ("red", 2.5)):
            queue.add(waits(team, since=float(len(queue)) / 1000, spill_in_s=spill_in_s), 0.0)
        refusals = queue.spill_all(0.01, by_coming, servers=1)

        assert ["red"] == [refusal.request.team for refusal in refusals]
        assert {"blue": 2, "red": 1} == queue.by_team


def test_lines_of_batches_go_last() -> None:
    """Whatever they cost and however long they wait, and without a share that the low classes have."""
    line = Line(waits("blue", 0.1, priority=BATCH), waits("blue", priority=LOW), waits("red", priority=HIGH))
    line.now = 1000.0

    assert [HIGH, LOW, BATCH] == [line.serve().request.priority for _ in range(3)]


def test_lines_of_batches_get_nothing_while_others_wait() -> None:
    line = Line(waits("green", priority=BATCH), waits("blue", priority=NORMAL), starvation_s=5.0)

    assert {"blue": 100.0} == line.serve_for(100.0)


def test_lines_of_batches_alone_share_the_fleet_by_team() -> None:
    line = Line(waits("green", priority=BATCH), waits("blue", priority=BATCH))

    assert {"blue": 50.0, "green": 50.0} == line.serve_for(100.0)


def test_a_line_of_a_batch_is_served_while_others_wait() -> None:
    """If it did not wait itself, its cost counts against the account of its class alone."""
    queue = FairQueue()
    queue.add(waits("blue"), 0.0)
    queue.served("green", BATCH, 1.0, 5.0, 0.0)
    queue.add(waits("green", priority=BATCH), 0.0)

    assert ["blue", "green"] == [each.team for each in queue.in_order(1.0, cheap_first)]
