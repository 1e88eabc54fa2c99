"""Where the gateway listens, and what it writes."""

from tests.gateway.settings.examples import SMALLEST, parsed, sentences


def test_the_admin_token_is_a_secret() -> None:
    """It is not shown, nor repeated where it is wrong; without one the admin routes are closed."""
    assert "**********" == str(parsed(f"{SMALLEST.replace('8080', '8080, admin_token: t-1')}").server.admin_token)
    assert parsed().server.admin_token is None
    assert [
        "WARMGATE_SERVER__ADMIN_TOKEN (server.admin_token) is not valid; "
        "it must be printable ASCII without spaces or line ends."
    ] == sentences(WARMGATE_SERVER__ADMIN_TOKEN="t 1")
