import json
import random

import pytest

from benchmarks.chat_bodies import PROMPTS, SIZES, bodies, one_body


def test_bodies_differ_and_share_their_system_prompt() -> None:
    """64 prompts of 1.2 kB: one beginning, different ends."""
    texts = bodies("requests", random.Random(1))
    messages = [json.loads(text)["messages"] for text in texts]

    assert PROMPTS == len(set(texts))
    assert 1 == len({each[0]["content"] for each in messages})
    assert all(1_100 <= len(text) <= 1_300 for text in texts)


def test_the_same_seed_gives_the_same_bodies() -> None:
    """A run can be repeated; only ``stream`` reports the two kinds of load apart."""
    plain, streamed = bodies("requests", random.Random(1))[0], bodies("streams", random.Random(1))[0]

    assert bodies("requests", random.Random(1))[0] == plain
    assert {**json.loads(plain), "stream": True} == json.loads(streamed)


@pytest.mark.parametrize(("number", "least", "most"), [(0, 1_100, 1_300), (1, 19_500, 20_500), (2, 215_000, 225_000)])
def test_a_size_is_what_its_name_says(number: int, least: int, most: int) -> None:
    size = SIZES[number]
    text = one_body("requests", random.Random(1), size)

    assert size.name.endswith(" kB")
    assert least <= len(text) <= most
