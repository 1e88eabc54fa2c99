"""Names of fields in nested data."""

from gateway.protocol.field_names import did_you_mean, dotted, listed


def test_a_place_is_written_with_dots_and_numbers() -> None:
    """Messages show it to the operator."""
    assert "models[0].workers[12].url" == dotted(("models", 0, "workers", 12, "url"))
    assert "" == dotted(())


def test_only_a_near_name_is_suggested() -> None:
    """The suggestion is the end of a sentence, or nothing."""
    assert "; did you mean 'port'" == did_you_mean("prot", ["host", "port"])
    assert "" == did_you_mean("zzz", ["host", "port"])


def test_names_are_listed_in_quotes() -> None:
    """In their order."""
    assert "'host', 'port'" == listed(["host", "port"])
