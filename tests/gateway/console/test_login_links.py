"""Facts about links that log in once."""

from gateway.api.admin_access import AdminKey
from gateway.console.login_links import MAX_LINKS, LoginLinks
from tests.gateway.examples import Clock

KEY = AdminKey("ow", "owner", "s3cret")


def test_a_link_works_once() -> None:
    links = LoginLinks(clock=Clock())
    links.add("token", KEY)

    assert [None, KEY, None] == [links.exchange(token) for token in ("Token", "token", "token")]


def test_a_link_works_for_10_minutes() -> None:
    clock = Clock()
    links = LoginLinks(clock=clock)
    links.add("first", KEY)
    links.add("second", KEY)
    clock.now += 599
    first = links.exchange("first")
    clock.now += 1

    assert (KEY, None) == (first, links.exchange("second"))


def test_the_number_of_links_is_bounded() -> None:
    links = LoginLinks(clock=Clock())
    for number in range(MAX_LINKS + 1):
        links.add(f"token-{number}", KEY)

    assert (None, KEY) == (links.exchange("token-0"), links.exchange("token-1"))
