"""Values that contradict each other."""

from gateway.protocol.contradictions import Contradiction, ambiguous, repeated, roles_in_vain


def test_a_repeated_value_names_the_first_place() -> None:
    text = "is 'x', which is already used by"

    assert [Contradiction((1,), text, (0,))] == repeated([((0,), "x"), ((1,), "x"), ((2,), "y")])


def test_an_id_has_one_address() -> None:
    found = ambiguous([(("m", 0), "w", "http://a"), (("m", 1), "w", "http://A:80"), (("m", 2), "w", "http://b")])

    assert [(("m", 2, "id"), ("m", 0, "url"))] == [(each.place, each.other) for each in found]


def test_a_half_role_needs_its_other_half() -> None:
    assert [("m", 1, "role")] == [each.place for each in roles_in_vain([(("m", 0), "both"), (("m", 1), "prefill")])]
