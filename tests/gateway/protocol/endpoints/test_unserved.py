from gateway.protocol.endpoints.table import ENDPOINTS
from gateway.protocol.endpoints.unserved import INSTEAD


def test_no_path_is_served_and_unserved() -> None:
    """The two tables are disjoint."""
    assert set() == set(INSTEAD) & set(ENDPOINTS)


def test_every_hint_ends_a_sentence() -> None:
    """The hint follows a colon, and is one line without a period."""
    assert all(hint[0] in "/souW" and not hint.endswith(".") and "\n" not in hint for hint in INSTEAD.values())


def test_a_path_that_a_hint_names_is_served() -> None:
    """A path of the gateway itself counts too."""
    named = {word.strip(",;") for hint in INSTEAD.values() for word in hint.split() if word.startswith("/")}

    assert {"/metrics"} == named - set(ENDPOINTS)
