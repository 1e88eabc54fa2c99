import random

from gateway.batch.order import OrderedLine, run_order, shared_bytes, sort_key

BLOCK = 256


def ordered(*prompts: bytes) -> list[OrderedLine]:
    return run_order([sort_key("tiny", prompt) for prompt in prompts], [len(prompt) for prompt in prompts])


def a_block(name: str) -> bytes:
    return name.encode().ljust(BLOCK, b".")


def test_nothing_has_an_order() -> None:
    assert [] == run_order([], [])


def test_lines_that_begin_alike_are_neighbors() -> None:
    """Only the first of them computes what they share."""
    found = ordered(*(a_block(group) * 3 + a_block(f"{group}{n}") for n in range(4) for group in "ab"))

    assert {frozenset({0, 2, 4, 6}), frozenset({1, 3, 5, 7})} == {
        frozenset(line.index for line in found[:4]),
        frozenset(line.index for line in found[4:]),
    }
    assert [4 * BLOCK, BLOCK, BLOCK, BLOCK] * 2 == [line.step_bytes for line in found]


def test_equal_prompts_keep_their_order() -> None:
    assert [0, 1, 2, 3] == [line.index for line in ordered(*[a_block("x")] * 4)]


def test_light_lines_are_spread_over_the_others() -> None:
    """Each third line is one, and the lines of both kinds keep their neighbors."""
    light = [a_block("light") * 40 + a_block(str(n)) for n in range(100)]
    heavy = [a_block(f"heavy {n}") * 50 for n in range(200)]
    found = ordered(*heavy, *light)

    places = [place for place, line in enumerate(found) if line.index >= 200]
    assert [3 * n + 1 for n in range(100)] == places
    assert 41 * BLOCK == found[places[0]].step_bytes
    assert {BLOCK} == {found[place].step_bytes for place in places[1:]}


def test_lines_that_share_most_of_their_prompts_are_never_separated() -> None:
    """Otherwise, a worker would compute what they share several times. Some of them have little to compute, and some
    have much.
    """
    rng = random.Random(1)
    families = [
        [a_block(f"family {n}") * 60 + a_block(f"{n} {k}") * rng.choice([1, 30]) for k in range(10)] for n in range(20)
    ]
    prompts = [prompt for family in families for prompt in family]
    rng.shuffle(prompts)
    found = ordered(*prompts)
    long = [line for line in found if line.step_bytes > 31 * BLOCK]

    assert 20 == len(long)


def test_every_line_is_in_the_order_once() -> None:
    rng = random.Random(2)
    for _ in range(200):
        prompts = [
            b"".join(a_block(rng.choice("ab")) for _ in range(rng.randint(0, 6))) for _ in range(rng.randint(1, 30))
        ]
        found = ordered(*prompts)

        assert list(range(len(prompts))) == sorted(line.index for line in found)
        assert all(0 <= line.step_bytes <= len(prompts[line.index]) for line in found)


def test_the_order_of_the_file_does_not_matter() -> None:
    rng = random.Random(3)
    prompts = [a_block(str(n % 7)) * (n % 5 + 1) + a_block(f"end {n}") for n in range(60)]
    shuffled = rng.sample(prompts, len(prompts))

    assert [prompts[line.index] for line in ordered(*prompts)] == [shuffled[line.index] for line in ordered(*shuffled)]


def test_prompts_have_whole_blocks_in_common() -> None:
    prompt = b"a" * 700

    assert 512 == shared_bytes(sort_key("tiny", prompt), sort_key("tiny", prompt + b"b"))
    assert 768 == shared_bytes(sort_key("tiny", prompt), sort_key("tiny", prompt))
    assert 0 == shared_bytes(sort_key("tiny", prompt), sort_key("large", prompt))
    assert 0 == shared_bytes(b"", sort_key("tiny", prompt))
