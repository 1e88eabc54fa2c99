"""Facts about logins that have begun at an identity provider."""

from gateway.console.identity_provider import LoginAttempt
from gateway.console.pending_logins import MAX_PER_ADDRESS, PendingLogins
from tests.gateway.console.providers import Provider
from tests.gateway.examples import Clock

ATTEMPT = LoginAttempt("s", "n", "v")


def begun(logins: PendingLogins, token: str, address: str = "192.0.2.1") -> None:
    logins.add(token, Provider(), ATTEMPT, place="/console", address=address, former=None)


def test_a_login_is_completed_once() -> None:
    logins = PendingLogins(clock=Clock())
    begun(logins, "one")
    found = logins.take("one")

    assert found is not None
    assert ("/console", ATTEMPT) == (found.place, found.attempt)
    assert [None, None, None] == [logins.take(each) for each in ("one", "two", None)]


def test_a_login_that_is_too_old_is_not_completed() -> None:
    clock = Clock()
    logins = PendingLogins(clock=clock)
    begun(logins, "one")
    begun(logins, "two")
    clock.now += 599
    assert logins.take("one") is not None
    clock.now += 1
    assert logins.take("two") is None


def test_one_address_displaces_only_its_own_logins() -> None:
    logins = PendingLogins(clock=Clock())
    begun(logins, "other", "192.0.2.2")
    for number in range(1000):
        begun(logins, f"token-{number}")

    assert MAX_PER_ADDRESS + 1 == len(logins)
    assert [None, True] == [logins.take("token-979"), logins.take("token-980") is not None]
    assert logins.take("other") is not None


def test_the_number_of_logins_is_bounded() -> None:
    logins = PendingLogins(clock=Clock(), max_logins=3)
    for number in range(5):
        begun(logins, f"token-{number}", f"192.0.2.{number}")

    assert 3 == len(logins)
    assert [None, None] == [logins.take("token-0"), logins.take("token-1")]
    assert logins.take("token-2") is not None


def test_secrets_are_not_shown() -> None:
    assert "LoginAttempt()" == repr(ATTEMPT)
