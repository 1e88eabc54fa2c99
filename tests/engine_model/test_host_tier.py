from collections.abc import Hashable, Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine_model.host_tier import HostTier, LoadTiming, PullTiming


class Writes:
    """A sink that keeps what it receives."""

    def __init__(self) -> None:
        self.received: list[tuple[str, tuple[Hashable, ...]]] = []

    def offloaded(self, hashes: Sequence[Hashable]) -> None:
        self.received.append(("offloaded", tuple(hashes)))

    def dropped(self, hashes: Sequence[Hashable]) -> None:
        self.received.append(("dropped", tuple(hashes)))


def held(host: HostTier, hashes: str) -> str:
    """Return those of *hashes* that the host tier holds."""
    return "".join(each for each in hashes if host.match([each]))


class TestTiming:
    def test_the_fixed_time_is_paid_once_per_load(self) -> None:
        """10 ms, and 4,000 tokens at 200,000 tokens per second."""
        assert 0.03 == pytest.approx(LoadTiming(fixed_s=0.01).load_s(4000))

    def test_nothing_takes_no_time(self) -> None:
        assert 0.0 == LoadTiming(fixed_s=0.01).load_s(0)

    @pytest.mark.parametrize(
        ("timing", "message"),
        [
            ((0.0, 0.0), r"tokens_per_s must be above 0, got 0\.0"),
            ((float("nan"), 0.0), "tokens_per_s must be above 0, got nan"),
            ((1.0, -0.1), r"fixed_s must not be negative, got -0\.1"),
        ],
    )
    def test_impossible_times_are_refused(self, timing: tuple[float, float], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            LoadTiming(*timing)


class TestTier:
    def test_a_tier_needs_a_block(self) -> None:
        with pytest.raises(ValueError, match="capacity must be at least 1, got 0"):
            HostTier(0)

    def test_a_hit_ends_at_the_first_missing_block(self) -> None:
        host = HostTier(8)
        host.store("abc")

        assert (3, 2, 0) == (host.match("abcd"), host.match("abxc"), host.match("xa"))

    def test_the_tail_is_evicted_before_the_head(self) -> None:
        """Two of four blocks of the same use make room."""
        host = HostTier(4)
        host.store("abcd")
        host.store("xy")

        assert "abxy" == held(host, "abcdxy")

    def test_a_use_renews_the_blocks_that_the_tier_holds(self) -> None:
        """The prompt abq uses a and b, which were stored before x and y."""
        host = HostTier(4)
        host.store("ab")
        host.store("xy")
        host.touch("abq")
        host.store("k")

        assert "abxk" == held(host, "abxyk")

    def test_a_sequence_does_not_evict_its_own_beginning(self) -> None:
        """The oldest blocks are those of the sequence that goes on, so the others go."""
        sink = Writes()
        host = HostTier(4, sink=sink)
        host.store("ab")
        host.store("xy")
        host.store("abcd")

        assert "abcd" == held(host, "abcdxy")
        assert [("dropped", ("y", "x")), ("offloaded", ("c", "d"))] == sink.received[2:]

    def test_a_sequence_that_does_not_fit_is_not_stored(self) -> None:
        """None of it, and nothing is evicted for it."""
        sink = Writes()
        host = HostTier(4, sink=sink)
        host.store("ab")
        host.store("vwxyz")

        assert "ab" == held(host, "abvwxyz")
        assert [("offloaded", ("a", "b"))] == sink.received

    def test_what_is_being_loaded_is_not_evicted(self) -> None:
        """Two loads of a: it is pinned until the second one ends."""
        host = HostTier(2)
        host.store("a")
        for _ in range(2):
            host.begin_load("a", 16, 0.0)
        host.store("xy")
        host.end_load("a")
        host.store("vw")

        assert "a" == held(host, "axyvw")

        host.end_load("a")
        host.store("xy")

        assert "xy" == held(host, "axyvw")

    def test_loads_share_one_link(self) -> None:
        """20 ms each; the second begins when the first ends, and a later one when it is asked for."""
        host = HostTier(4)
        host.store("ab")

        assert 1.02 == pytest.approx(host.begin_load("a", 4000, 1.0))
        assert 1.04 == pytest.approx(host.begin_load("b", 4000, 1.01))
        assert 5.02 == pytest.approx(host.begin_load("a", 4000, 5.0))
        assert 5.01 == host.begin_load("", 0, 5.01)

    def test_a_cleared_tier_holds_nothing(self) -> None:
        """It reports nothing either, since the pool does. A load that was running can still end."""
        sink = Writes()
        host = HostTier(4, sink=sink)
        host.store("ab")
        host.begin_load("a", 16, 0.0)
        host.clear()
        host.end_load("a")

        assert (0, 0) == (len(host), host.match("ab"))
        assert [("offloaded", ("a", "b"))] == sink.received


SEQUENCES = st.sampled_from(["a", "ab", "abc", "abcd", "ax", "axy", "k", "kl", "klm", "klmnopq"])


class TierAgainstOracle(RuleBasedStateMachine):
    """The tier beside the plainest model: the time of last use of each block, and a search for the oldest one."""

    def __init__(self) -> None:
        super().__init__()
        self.sink = Writes()
        self.host = HostTier(6, sink=self.sink)
        self.used: dict[str, int] = {}
        self.clock = 0
        self.loads: list[list[str]] = []

    @rule(sequence=SEQUENCES)
    def store(self, sequence: str) -> None:
        hashes = chained(sequence)
        self.host.store(hashes)
        new = [block for block in hashes if block not in self.used]
        excess = len(self.used) + len(new) - 6
        pinned = {block for load in self.loads for block in load}
        idle = sorted((at, block) for block, at in self.used.items() if block not in pinned and block not in hashes)
        if not new or excess > len(idle):
            return
        for _, block in idle[: max(0, excess)]:
            del self.used[block]
        self.used.update(dict.fromkeys(new, 0))
        self.note_use(hashes)

    @rule(sequence=SEQUENCES)
    def use(self, sequence: str) -> None:
        self.host.touch(chained(sequence))
        self.note_use(chained(sequence))

    @rule(sequence=SEQUENCES)
    def load(self, sequence: str) -> None:
        found = chained(sequence)[: self.host.match(chained(sequence))]
        self.host.begin_load(found, 16 * len(found), 0.0)
        self.loads.append(found)

    @precondition(lambda self: self.loads)
    @rule(data=st.data())
    def end_load(self, data: st.DataObject) -> None:
        self.host.end_load(self.loads.pop(data.draw(st.integers(0, len(self.loads) - 1))))

    def note_use(self, hashes: Sequence[str]) -> None:
        for block in reversed(hashes):
            if block in self.used:
                self.clock += 1
                self.used[block] = self.clock

    @invariant()
    def both_hold_the_same(self) -> None:
        assert len(self.used) == len(self.host) <= 6
        assert all(self.host.match([block]) for block in self.used)

    @invariant()
    def the_events_report_what_is_held(self) -> None:
        reported: set[Hashable] = set()
        for event, hashes in self.sink.received:
            assert reported.isdisjoint(hashes) if event == "offloaded" else reported.issuperset(hashes)
            reported.symmetric_difference_update(hashes)
        assert set(self.used) == reported


def chained(sequence: str) -> list[str]:
    """Return the hash of each block, which names the block and all before it."""
    return [sequence[: end + 1] for end in range(len(sequence))]


TierAgainstOracle.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestTierAgainstOracle = TierAgainstOracle.TestCase


class TestPulls:
    def test_a_pull_takes_its_latency_and_its_tokens(self) -> None:
        """30 ms, and 4,000 tokens at 100,000 tokens per second."""
        assert 0.07 == pytest.approx(PullTiming().pull_s(4000))

    @pytest.mark.parametrize(
        ("timing", "message"),
        [
            ((-0.1, 1.0), r"latency_s must not be negative, got -0\.1"),
            ((0.0, 0.0), r"tokens_per_s must be above 0, got 0\.0"),
        ],
    )
    def test_impossible_times_are_refused(self, timing: tuple[float, float], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            PullTiming(*timing)

    def test_pulls_and_loads_share_the_link(self) -> None:
        """A load of 200,000 tokens takes a second, and then a pull of 7,000 tokens 100 ms."""
        host = HostTier(8)
        host.store("a")
        host.begin_load("a", 200_000, 0.0)

        assert 1.1 == pytest.approx(host.begin_pull(7000, 0.0))
