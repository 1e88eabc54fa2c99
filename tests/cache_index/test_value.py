from cache_index import Prefix
from cache_index.hit import Hit

# Values of the product, and no doubles: compiled, the base takes no classes that are not.


def test_values_of_one_class_with_equal_fields_are_equal_and_hash_alike() -> None:
    assert Hit(3, cpu=1) == Hit(3, 1, 0, 0)
    assert hash(Hit(3, cpu=1)) == hash(Hit(3, 1))
    assert 1 == len({Hit(3), Hit(3)})


def test_another_field_another_class_or_a_tuple_makes_them_differ() -> None:
    assert Hit(3) != Hit(4)
    assert Hit(3) != Prefix(b"")
    assert Prefix(b"", 3) != (b"", 3)


def test_a_changed_value_is_another_one_with_the_other_fields_kept() -> None:
    hit = Hit(3, disk=1)

    assert Hit(4, disk=1) == hit.changed(blocks=4)
    assert Hit(3, disk=1) == hit


def test_it_shows_its_fields_by_name_in_the_order_in_which_they_are_given() -> None:
    assert (3, 0, 1, 0) == Hit(3, disk=1).fields()
    assert "Hit(blocks=3, cpu=0, disk=1, shared=0)" == repr(Hit(3, disk=1))
