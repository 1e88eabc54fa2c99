from typing import Any

import pytest

from gateway.protocol.errors import Conflict, GatewayError, UnknownEntity
from gateway.tenancy.teams.access_records import ProvisionedGroup, ProvisionedUser, Revocation
from gateway.tenancy.teams.added_worker import MAX_MODEL_WORKERS, MAX_WORKERS, AddedWorker
from gateway.tenancy.teams.change_result import ChangeResult, change_result
from gateway.tenancy.teams.key import Key
from gateway.tenancy.teams.route_weights import RouteWeights
from gateway.tenancy.teams.team import Team
from gateway.tenancy.teams.team_store import (
    Change,
    DeleteKey,
    DeleteRoute,
    DeleteTeam,
    DeleteWorker,
    PutAccess,
    PutKey,
    PutRoute,
    PutTeam,
    PutWorker,
    Snapshot,
)

BLUE, RED = Team("blue"), Team("red")
CI, DEV = Key("ci", "blue", "c"), Key("dev", "blue", "d")
BEFORE = Snapshot(7, {"blue": BLUE, "red": RED}, {"ci": CI, "dev": DEV})
HEAVY = Team("blue", weight=2.0)
BLOCKED = Key("ci", "blue", "c", blocked=True)


@pytest.mark.parametrize(
    ("change", "result"),
    [
        (
            PutTeam(Team("green")),
            ChangeResult(
                Snapshot(8, {**BEFORE.teams, "green": Team("green")}, BEFORE.keys), {"green": Team("green")}, {}
            ),
        ),
        (
            PutTeam(HEAVY, BLUE),
            ChangeResult(Snapshot(8, {"blue": HEAVY, "red": RED}, BEFORE.keys), {"blue": HEAVY}, {}),
        ),
        (
            PutKey(Key("x", "red", "x")),
            ChangeResult(
                Snapshot(8, BEFORE.teams, {**BEFORE.keys, "x": Key("x", "red", "x")}), {}, {"x": Key("x", "red", "x")}
            ),
        ),
        (
            PutKey(BLOCKED, CI),
            ChangeResult(Snapshot(8, BEFORE.teams, {"ci": BLOCKED, "dev": DEV}), {}, {"ci": BLOCKED}),
        ),
        (
            DeleteTeam("red"),
            ChangeResult(Snapshot(8, {"blue": BLUE}, BEFORE.keys), {"red": None}, {}),
        ),
        (
            DeleteTeam("blue", with_keys=True),
            ChangeResult(Snapshot(8, {"red": RED}, {}), {"blue": None}, {"ci": None, "dev": None}),
        ),
        (DeleteKey("ci"), ChangeResult(Snapshot(8, BEFORE.teams, {"dev": DEV}), {}, {"ci": None})),
    ],
)
def test_a_change_has_rows_and_a_new_snapshot(change: Change, result: ChangeResult) -> None:
    assert result == change_result(change, BEFORE)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (PutTeam(BLUE), Conflict, "A team 'blue' already exists"),
        (PutKey(CI), Conflict, "A key 'ci' already exists"),
        (
            PutTeam(BLUE, HEAVY),
            Conflict,
            "The team 'blue' has changed meanwhile. Read it again and repeat your change.",
        ),
        (PutKey(CI, BLOCKED), Conflict, "The key 'ci' has changed meanwhile. Read it again and repeat your change."),
        (PutTeam(Team("green"), Team("green")), UnknownEntity, "There is no team 'green' any more"),
        (PutKey(Key("x", "blue", "x"), Key("x", "blue", "x")), UnknownEntity, "There is no key 'x' any more"),
        (
            PutKey(Key("ci", "red", "c"), CI),
            Conflict,
            "The key 'ci' belongs to the team 'blue'. A key cannot move to another team.",
        ),
        (PutKey(Key("x", "green", "x")), UnknownEntity, "There is no team 'green'"),
        (DeleteTeam("green"), UnknownEntity, "There is no team 'green'"),
        (
            DeleteTeam("blue"),
            Conflict,
            "The team 'blue' has 2 keys. Delete them first, or delete the team with its keys.",
        ),
        (DeleteKey("x"), UnknownEntity, "There is no key 'x'"),
        (
            DeleteTeam("blue", with_keys=True, former=HEAVY),
            Conflict,
            "The team 'blue' has changed meanwhile. Read it again and repeat your change.",
        ),
        (
            DeleteKey("ci", BLOCKED),
            Conflict,
            "The key 'ci' has changed meanwhile. Read it again and repeat your change.",
        ),
    ],
)
def test_a_change_that_cannot_be_is_refused(change: Change, error: type[GatewayError], message: str) -> None:
    with pytest.raises(error) as refused:
        change_result(change, BEFORE)

    assert message == refused.value.message


def test_a_declared_team_need_not_be_in_the_store_to_get_a_key() -> None:
    key = Key("x", "declared", "x")

    assert {"x": key} == change_result(PutKey(key, is_team_declared=True), BEFORE).keys


W1, W2 = AddedWorker("tiny", "http://10.0.0.1:8000", "w1"), AddedWorker("big", "http://10.0.0.1:8000", "w1")
WITH_ONE = Snapshot(7, workers={W1.name: W1})


def test_workers_are_added_and_removed() -> None:
    """The same id and address may serve another model too."""
    assert ChangeResult(Snapshot(8, workers={W1.name: W1, W2.name: W2}), {}, {}, {W2.name: W2}) == change_result(
        PutWorker(W2), WITH_ONE
    )
    assert ChangeResult(Snapshot(8), {}, {}, {W1.name: None}) == change_result(DeleteWorker("tiny", "w1"), WITH_ONE)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (
            PutWorker(AddedWorker("tiny", "http://10.0.0.9:8000", "w1")),
            Conflict,
            "A worker 'w1' was already added to the model",
        ),
        (
            PutWorker(AddedWorker("tiny", "HTTP://10.0.0.1:8000", "x")),
            Conflict,
            "'tiny' already has the added worker 'w1' at that address",
        ),
        (DeleteWorker("big", "w1"), UnknownEntity, "No worker 'w1' was added to the model 'big'"),
    ],
)
def test_a_worker_has_an_id_and_an_address_of_its_own(change: Change, error: type[GatewayError], text: str) -> None:
    """Within its model."""
    with pytest.raises(error, match=text):
        change_result(change, WITH_ONE)


@pytest.mark.parametrize(
    ("models", "most", "text"),
    [(1, MAX_MODEL_WORKERS, "256 workers were already added to"), (10, MAX_WORKERS, "1000 workers")],
)
def test_added_workers_are_bounded(models: int, most: int, text: str) -> None:
    """For one model, and in all."""
    workers = [AddedWorker(f"m{n % models}", f"http://10.0.{n // 250}.{n % 250}:8000", f"w{n}") for n in range(most)]
    full = Snapshot(1, workers={worker.name: worker for worker in workers})
    with pytest.raises(Conflict, match=text):
        change_result(PutWorker(AddedWorker("m0", "http://10.9.9.9:8000", "one-more")), full)


def test_weights_of_routes_are_set_replaced_and_removed() -> None:
    first = RouteWeights("chat", {"a": 1.0}, {"a": 2.0})
    second = RouteWeights("chat", {"a": 3.0}, {"a": 2.0})
    with_first = Snapshot(8, routes={"chat": first})

    assert ChangeResult(with_first, {}, {}, {}, {"chat": first}) == change_result(PutRoute(first), Snapshot(7))
    assert Snapshot(9, routes={"chat": second}) == change_result(PutRoute(second), with_first).snapshot
    assert ChangeResult(Snapshot(9), {}, {}, {}, {"chat": None}) == change_result(DeleteRoute("chat"), with_first)
    with pytest.raises(UnknownEntity, match="No weights were set for the route 'chat'"):
        change_result(DeleteRoute("chat"), Snapshot(9))


def test_routes_with_weights_are_bounded() -> None:
    full = Snapshot(1, routes={f"r{n}": RouteWeights(f"r{n}", {"a": 1.0}, {"a": 2.0}) for n in range(1000)})
    change_result(PutRoute(RouteWeights("r7", {"a": 3.0}, {"a": 2.0})), full)
    with pytest.raises(Conflict, match="1000 routes already have weights"):
        change_result(PutRoute(RouteWeights("one-more", {"a": 3.0}, {"a": 2.0})), full)


def test_access_records_are_written_and_deleted_together() -> None:
    first, second = (Revocation("okta", "token", value, 1.0, 2.0) for value in "ab")
    with_first = Snapshot(8, access={first.name: first})
    change = PutAccess({first.name: None, second.name: second, "unknown": None}, {second.name: None})

    assert ChangeResult(with_first, {}, {}, access={first.name: first}) == change_result(
        PutAccess({first.name: first}), Snapshot(7)
    )
    assert {first.name: None, second.name: second} == change_result(change, with_first).access
    assert {second.name: second} == change_result(change, with_first).snapshot.access


def test_a_change_of_access_records_names_the_expected_state() -> None:
    made = Revocation("okta", "token", "a", 1.0, 2.0)
    with pytest.raises(Conflict, match="has changed meanwhile"):
        change_result(PutAccess({made.name: None}, {made.name: made}), Snapshot(7))


def test_revocations_are_bounded() -> None:
    made = [Revocation("okta", "token", str(number), 1.0, 2.0) for number in range(10_001)]
    full = Snapshot(1, access={each.name: each for each in made[:-1]})
    one_more = {made[-1].name: made[-1]}
    change_result(PutAccess({made[0].name: None, **one_more}), full)
    with pytest.raises(Conflict, match="There are 10000 revocations"):
        change_result(PutAccess(one_more), full)


@pytest.mark.parametrize(
    ("present", "same", "other"),
    [
        (
            ProvisionedUser("okta", "1", "Alice"),
            ProvisionedUser("okta", "2", "alice"),
            ProvisionedUser("entra", "3", "Alice"),
        ),
        (
            ProvisionedGroup("okta", "1", "Research"),
            ProvisionedGroup("okta", "2", "research"),
            ProvisionedGroup("entra", "3", "Research"),
        ),
    ],
)
def test_names_of_people_and_groups_are_unique_for_an_issuer(present: Any, same: Any, other: Any) -> None:
    now = Snapshot(1, access={present.name: present})
    with pytest.raises(Conflict, match=r"Another (user|group) has the same") as refused:
        change_result(PutAccess({same.name: same}), now)

    assert refused.value.param in {"userName", "displayName"}
    assert 2 == len(change_result(PutAccess({other.name: other}), now).snapshot.access)
    assert {same.name} == change_result(PutAccess({present.name: None, same.name: same}), now).snapshot.access.keys()


def test_people_and_groups_are_bounded() -> None:
    users = [ProvisionedUser("okta", str(number), str(number)) for number in range(10_001)]
    groups = [ProvisionedGroup("okta", str(number), str(number)) for number in range(1_001)]
    with pytest.raises(Conflict, match="There are 10000 users"):
        change_result(PutAccess({each.name: each for each in users}), Snapshot(1))
    with pytest.raises(Conflict, match="There are 1000 groups"):
        change_result(PutAccess({each.name: each for each in groups}), Snapshot(1))
