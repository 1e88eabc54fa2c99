import pytest

from gateway.protocol.errors import Conflict
from gateway.tenancy.teams.key import Former, Key
from gateway.tenancy.teams.rotation import MAX_FORMERS, rotated

KEY = Key("ci", "blue", "aa", created_at=7.0, blocked=True)
ROTATED = rotated(KEY, "bb", grace_s=60.0, now=1000.0)


def test_the_former_secret_counts_for_a_while() -> None:
    assert Key("ci", "blue", "bb", "aa", 1060.0, created_at=7.0, blocked=True) == ROTATED


def test_without_grace_the_present_secret_ends_at_once() -> None:
    assert Key("ci", "blue", "bb", created_at=7.0, blocked=True) == rotated(KEY, "bb", grace_s=0.0, now=1000.0)


def test_a_running_grace_is_not_shortened_by_the_next_rotation() -> None:
    """Neither by one with a shorter grace, nor by one without."""
    shorter = rotated(ROTATED, "cc", grace_s=5.0, now=1001.0)
    without = rotated(ROTATED, "cc", grace_s=0.0, now=1001.0)

    assert (Former("bb", 1006.0), Former("aa", 1060.0)) == shorter.formers(1001.0)
    assert (Former("aa", 1060.0),) == shorter.formers(1006.0)
    assert (Former("aa", 1060.0),) == without.formers(1001.0)
    assert () == shorter.formers(1060.0)


def test_a_grace_that_is_over_is_not_kept() -> None:
    assert (Former("bb", 1065.0),) == rotated(ROTATED, "cc", grace_s=5.0, now=1060.0).all_formers()


def test_graces_end_when_that_is_asked_for() -> None:
    """After a leak all that was known before has to go."""
    after = rotated(ROTATED, "cc", grace_s=0.0, now=1001.0, end_graces=True)

    assert () == after.all_formers()


def test_only_so_many_former_secrets_count_at_once() -> None:
    key = KEY
    for i in range(MAX_FORMERS):
        key = rotated(key, f"{i}", grace_s=60.0, now=1000.0)

    with pytest.raises(Conflict, match=r"has 8 former secrets in their grace period"):
        rotated(key, "zz", grace_s=60.0, now=1000.0)
    assert MAX_FORMERS == len(rotated(key, "zz", grace_s=0.0, now=1000.0).all_formers())
