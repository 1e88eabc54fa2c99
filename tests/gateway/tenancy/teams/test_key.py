from gateway.tenancy.teams.key import Key


def test_a_key_does_not_show_its_digests() -> None:
    """It may come to stand in a log."""
    assert "Key(id='ci', team='blue')" == repr(Key("ci", "blue", "d" * 64, "e" * 64, 5.0))
