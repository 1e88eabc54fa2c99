"""Names of settings."""

from gateway.settings.names import place_of, variable_of


def test_a_place_and_its_variable_are_the_same() -> None:
    """One is made of the other, and back."""
    place = ("models", 0, "workers", 12, "url")

    assert "WARMGATE_MODELS__0__WORKERS__12__URL" == variable_of(place)
    assert place == place_of("WARMGATE_MODELS__0__WORKERS__12__URL")
