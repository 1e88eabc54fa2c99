from gateway.teams.key import Key
from gateway.teams.rotation import rotated

KEY = Key("ci", "blue", "aa", created_at=7.0, blocked=True)


def test_the_former_secret_counts_for_a_while() -> None:
    after = rotated(KEY, "bb", grace_s=60.0, now=1000.0)

    assert Key("ci", "blue", "bb", "aa", 1060.0, created_at=7.0, blocked=True) == after


def test_without_grace_it_counts_no_more() -> None:
    """Nor does the one before it."""
    after = rotated(rotated(KEY, "bb", grace_s=60.0, now=1000.0), "cc", grace_s=0.0, now=1001.0)

    assert Key("ci", "blue", "cc", created_at=7.0, blocked=True) == after


def test_only_the_last_former_secret_counts() -> None:
    after = rotated(rotated(KEY, "bb", grace_s=60.0, now=1000.0), "cc", grace_s=5.0, now=1001.0)

    assert ("cc", "bb", 1006.0) == (after.digest, after.former_digest, after.former_until)
