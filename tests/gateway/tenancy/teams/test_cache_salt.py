import re

from gateway.tenancy.teams.cache_salt import isolated_salt


def test_a_salt_stays_as_it_is() -> None:
    """In every gateway, and after every restart: else what is cached would be lost."""
    assert "QTMgX40cMAF8TNmm5A1XY3osouLacOmFYimZP_jQf6A" == isolated_salt("blue", b"pepper")


def test_every_team_has_its_own() -> None:
    assert isolated_salt("blue", b"pepper") != isolated_salt("red", b"pepper")


def test_it_depends_on_the_pepper() -> None:
    assert isolated_salt("blue", b"pepper") != isolated_salt("blue", b"another")
    assert "blue" not in isolated_salt("blue", b"pepper")


def test_it_can_stand_in_json_as_it_is() -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", isolated_salt("blue", b"pepper"))
