from typing import Final

from cache_index.value import Value


class Place(Value):
    __match_args__ = ("row", "name")
    __slots__ = __match_args__

    def __init__(self, row: int, name: str = "aisle") -> None:
        self.row: Final = row
        self.name: Final = name


class Seat(Place):
    pass


def test_values_of_one_class_with_equal_fields_are_equal_and_hash_alike() -> None:
    assert Place(3, "window") == Place(3, "window")
    assert hash(Place(3, "window")) == hash(Place(3, "window"))
    assert 1 == len({Place(3), Place(3)})


def test_another_field_another_class_or_a_tuple_makes_them_differ() -> None:
    assert Place(3) != Place(4)
    assert Place(3) != Seat(3)
    assert Place(3) != (3, "aisle")


def test_a_changed_value_is_another_one_with_the_other_fields_kept() -> None:
    window = Place(3, "window")

    assert Place(4, "window") == window.changed(row=4)
    assert Place(3, "window") == window


def test_it_shows_its_fields_by_name_in_the_order_in_which_they_are_given() -> None:
    assert (3, "aisle") == Place(3).fields()
    assert "Place(row=3, name='aisle')" == repr(Place(3))
