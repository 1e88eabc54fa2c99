from gateway.settings.names import did_you_mean, dotted, listed, place_of, variable_of


def test_a_place_is_written_with_dots_and_numbers() -> None:
    """As the operator reads it."""
    assert "models[0].workers[12].url" == dotted(("models", 0, "workers", 12, "url"))
    assert "" == dotted(())


def test_a_place_and_its_variable_are_the_same() -> None:
    """One is made of the other, and back."""
    place = ("models", 0, "workers", 12, "url")

    assert "WARMGATE_MODELS__0__WORKERS__12__URL" == variable_of(place)
    assert place == place_of("WARMGATE_MODELS__0__WORKERS__12__URL")


def test_only_a_near_name_is_suggested() -> None:
    """As the end of a sentence, or nothing."""
    assert "; did you mean 'port'" == did_you_mean("prot", ["host", "port"])
    assert "" == did_you_mean("zzz", ["host", "port"])


def test_names_are_listed_in_quotes() -> None:
    """In their order."""
    assert "'host', 'port'" == listed(["host", "port"])
