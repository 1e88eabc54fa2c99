import random
import re

from gateway.proxy.request_ids import RequestIds


def test_an_id_has_32_hexadecimal_digits() -> None:
    assert re.fullmatch(rb"[0-9a-f]{32}", RequestIds(random.Random(1)).next_id())


def test_no_id_is_given_twice() -> None:
    """1,000 ids are more than are generated at once."""
    ids = RequestIds(random.Random(1))

    assert 1000 == len({ids.next_id() for _ in range(1000)})


def test_ids_depend_on_the_generator_alone() -> None:
    one, same, other = (RequestIds(random.Random(seed)) for seed in (1, 1, 2))

    assert one.next_id() == same.next_id()
    assert one.next_id() != other.next_id()
