from gateway.endpoints.table import ENDPOINTS
from gateway.endpoints.unserved import INSTEAD


def test_what_is_not_served_is_not_served() -> None:
    """No path is in both tables."""
    assert set() == set(INSTEAD) & set(ENDPOINTS)


def test_every_hint_ends_a_sentence() -> None:
    """It follows a colon, and is one line without a full stop."""
    assert all(hint[0] in "/aiuW" and not hint.endswith(".") and "\n" not in hint for hint in INSTEAD.values())


def test_a_path_that_a_hint_names_is_served() -> None:
    """Or it is the gateway's own."""
    named = {word.strip(",;") for hint in INSTEAD.values() for word in hint.split() if word.startswith("/")}

    assert {"/metrics"} == named - set(ENDPOINTS)
