"""Where the gateway listens, and what it writes."""

from tests.gateway.settings.examples import parsed, sentences


def test_the_zone_is_one_word() -> None:
    assert parsed().server.zone is None
    assert [
        "WARMGATE_SERVER__ZONE (server.zone) is 'us east'; the value must be printable ASCII without spaces."
    ] == sentences(WARMGATE_SERVER__ZONE="us east")
