import itertools
import random
from functools import partial

import pytest

from gateway.tenancy.teams.added_worker import AddedWorker
from gateway.tenancy.teams.declared import Declared
from gateway.tenancy.teams.directory import Directory
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.limits import Limits
from gateway.tenancy.teams.named_rules import NamedRules
from gateway.tenancy.teams.route_weights import RouteWeights
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import Snapshot

BLUE, RED = Team("blue"), Team("red")
CI, DEV = Key("ci", "blue", "c"), Key("dev", "red", "d")
STORED = Snapshot(3, {"red": RED, "blue": BLUE}, {"dev": DEV, "ci": CI})


def directory(snapshot: Snapshot = STORED, declared: Declared | None = None) -> Directory:
    made = Directory(is_followed=True)
    made.declare(declared or Declared())
    made.apply(snapshot)
    return made


def test_callers_are_found_by_the_digest_of_their_secret() -> None:
    caller = directory().caller_of("c")

    assert caller is not None
    assert (BLUE, CI) == (caller.team, caller.key)
    assert directory().caller_of("x") is None


def test_callers_are_found_by_their_former_secret() -> None:
    """The directory has no clock: the caller checks whether it is still valid."""
    found = directory(Snapshot(3, {"blue": BLUE}, {"ci": Key("ci", "blue", "new", "old", 5.0)}))

    assert found.caller_of("new") is found.caller_of("old") is found.caller("ci") is not None


def test_everything_is_listed_in_the_order_of_names() -> None:
    assert ["blue", "red"] == list(directory().teams)
    assert ["ci", "dev"] == list(directory().keys)
    assert 3 == directory().revision


def test_the_configuration_wins() -> None:
    """A stored key of the same id gives no access, even with its own secret."""
    heavy, other = Team("blue", weight=9.0), Key("ci", "blue", "declared")
    found = directory(declared=Declared({"blue": heavy}, {"ci": other}))

    assert {"blue": heavy, "red": RED} == found.teams
    assert {"ci": other, "dev": DEV} == found.keys
    assert found.caller_of("c") is None
    assert found.caller_of("declared") is found.caller("ci")


def test_it_knows_what_is_config_managed() -> None:
    found = directory(declared=Declared({"blue": BLUE}, {"ci": CI}))

    assert (True, False, False) == tuple(map(found.is_declared_team, ("blue", "red", "green")))
    assert (True, False, False) == tuple(map(found.is_declared_key, ("ci", "dev", "x")))


def test_a_stored_key_may_be_of_a_declared_team() -> None:
    found = directory(Snapshot(1, {}, {"ci": CI}), Declared({"blue": BLUE}, {}))
    caller = found.caller_of("c")

    assert caller is not None
    assert BLUE == caller.team


def test_a_key_without_a_team_is_listed_and_opens_nothing() -> None:
    found = directory(Snapshot(1, {}, {"ci": CI}))

    assert {"ci": CI} == found.keys
    assert found.caller_of("c") is None
    assert found.caller("ci") is None


def test_a_present_secret_comes_before_a_former_one_and_a_declared_before_a_stored() -> None:
    """Two keys with one secret are a mistake, but the choice must not be random."""
    keys = {"a": Key("a", "blue", "same"), "z": Key("z", "blue", "new", "same", 9.0)}
    assert directory(Snapshot(1, {"blue": BLUE}, keys)).caller_of("same") is not None
    caller = directory(Snapshot(1, {"blue": BLUE}, keys)).caller_of("same")
    assert caller is not None
    assert "a" == caller.key.id

    declared = Declared({"blue": BLUE}, {"b": Key("b", "blue", "same")})
    caller = directory(Snapshot(1, {}, keys), declared).caller_of("same")
    assert caller is not None
    assert "b" == caller.key.id


def test_a_caller_stays_the_same_as_long_as_team_and_key_do() -> None:
    found = directory()
    ci, dev = found.caller_of("c"), found.caller_of("d")
    found.apply(Snapshot(4, {"red": Team("red", weight=2.0), "blue": Team("blue")}, {"dev": DEV, "ci": CI}))

    assert ci is found.caller_of("c")
    assert dev is not found.caller_of("d")


def test_every_change_makes_another_generation() -> None:
    """A snapshot without changes makes no new caller."""
    found = directory()
    generations = [found.generation]
    for snapshot in (STORED, Snapshot(4, {"blue": BLUE}, {"ci": CI}), STORED):
        found.apply(snapshot)
        generations.append(found.generation)
    found.declare(Declared({"red": RED}))
    generations.append(found.generation)

    assert [0, 1, 0, 1] == [after - before for before, after in itertools.pairwise(generations)]


def test_a_deleted_key_gives_no_access() -> None:
    found = directory()
    found.apply(Snapshot(4, {"red": RED, "blue": BLUE}, {"dev": DEV}))

    assert found.caller_of("c") is None
    assert found.caller("ci") is None


def test_an_older_snapshot_is_passed_over() -> None:
    """It was read before a change of our own: what that revoked must stay revoked."""
    found = directory(Snapshot(4, {"blue": BLUE}, {}))
    found.apply(STORED)
    assert (4, None) == (found.revision, found.caller_of("c"))

    found.apply(STORED, was_emptied=True)
    assert 3 == found.revision
    assert found.caller_of("c") is not None


def test_a_key_that_left_the_configuration_is_gone() -> None:
    found = directory(Snapshot(0), Declared({"blue": BLUE}, {"ci": CI}))
    found.declare(Declared())

    assert ({}, {}, None) == (found.teams, found.keys, found.caller_of("c"))


def test_it_is_behind_until_the_store_is_heard() -> None:
    """It is also behind when it loses the store; what is known stays."""
    found = Directory(is_followed=True)
    behind = [found.is_behind]
    for step in (partial(found.apply, STORED), found.fall_behind, partial(found.apply, STORED)):
        step()
        behind.append(found.is_behind)
        assert found.caller_of("c") is not None

    assert [True, False, True, False] == behind


def test_without_a_store_it_is_never_behind() -> None:
    assert not Directory().is_behind


@pytest.mark.parametrize("seed", range(20))
def test_after_any_changes_it_equals_a_new_directory(seed: int) -> None:
    """Only the objects of unchanged callers remain from the past."""
    rng = random.Random(seed)
    found = Directory()
    for revision in range(60):
        snapshot, declared = _random_state(rng, revision)
        if rng.random() < 0.5:
            found.apply(snapshot)
        else:
            found.declare(declared)
        state, fresh = (found._stored, found._declared), Directory()
        fresh.apply(state[0])
        fresh.declare(state[1])
        for digest in "0123456789":
            one, other = found.caller_of(digest), fresh.caller_of(digest)
            assert (one is None) == (other is None)
            if one is not None and other is not None:
                assert (other.team, other.key) == (one.team, one.key)


def _random_state(rng: random.Random, revision: int) -> tuple[Snapshot, Declared]:
    def teams() -> dict[str, Team]:
        return {name: Team(name, weight=rng.choice((1.0, 2.0))) for name in "abc" if rng.random() < 0.6}

    def keys() -> dict[str, Key]:
        return {
            name: Key(name, rng.choice("abc"), rng.choice("0123456789"), rng.choice((None, *"0123456789")))
            for name in "uvwxyz"
            if rng.random() < 0.5
        }

    return Snapshot(revision, teams(), keys()), Declared(teams(), keys())


def test_followers_get_the_added_workers_now_and_after_changes() -> None:
    """Other changes do not call them."""
    worker = AddedWorker("tiny", "http://10.0.0.7:8000", "w7")
    heard: list[dict[str, AddedWorker]] = []
    found = directory()
    found.follow_workers(lambda workers: heard.append(dict(workers)))
    for revision, workers in ((4, {worker.name: worker}), (5, {worker.name: worker}), (6, {})):
        found.apply(Snapshot(revision, {"blue": BLUE}, {}, workers))

    assert [{}, {"w7 tiny": worker}, {}] == heard
    assert {} == found.workers


def test_followers_get_the_weights_of_routes_now_and_after_changes() -> None:
    found = directory(STORED)
    weights = RouteWeights("chat", {"a": 1.0}, {"a": 2.0})
    heard: list[dict[str, RouteWeights]] = []

    found.follow_routes(lambda routes: heard.append(dict(routes)))
    for revision, routes in ((4, {"chat": weights}), (5, {"chat": weights}), (6, {})):
        found.apply(Snapshot(revision, {"blue": BLUE}, routes=routes))

    assert [{}, {"chat": weights}, {}] == heard
    assert {} == found.routes


def test_a_changed_limit_template_changes_all_teams_and_keys_that_name_it() -> None:
    """Callers get the new limits, and an administrator still sees the name."""
    directory, team = Directory(), Team("blue", limit_template="standard", models=("group:chat",))
    directory.apply(Snapshot(1, {"blue": team}, {"ci": Key("ci", "blue", "d", limit_template="standard")}))
    for amount in (5, 50):
        rules = NamedRules({"standard": Limits(concurrent=amount)}, {"chat": ("tiny",)})
        directory.declare(Declared({"red": Team("red", limit_template="standard")}, rules=rules))
        caller = directory.caller("ci")

        assert caller is not None
        assert (amount, amount) == (caller.team.limits.concurrent, caller.key.limits.concurrent)
        assert amount == directory.teams["red"].limits.concurrent
        assert caller.permits.may_use("tiny", "tiny")
        assert not caller.permits.may_use("big", "big")
        assert (team, "standard") == (directory.written_teams["blue"], directory.written_keys["ci"].limit_template)
