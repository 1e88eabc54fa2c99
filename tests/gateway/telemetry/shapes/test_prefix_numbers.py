import random

from gateway.telemetry.shapes.prefix_numbers import PrefixNumbers


def hashes(*blocks: int) -> bytes:
    return b"".join(block.to_bytes(8, "little") for block in blocks)


def place(numbers: PrefixNumbers, *blocks: int, step_blocks: int = 1) -> tuple[int, int, int, int]:
    found = numbers.place(hashes(*blocks), step_blocks)
    return found.parent, found.shared, found.first, found.new


def test_new_steps_get_consecutive_numbers() -> None:
    """Three steps from 1 on, without a parent."""
    assert (0, 0, 1, 3) == place(PrefixNumbers(), 11, 12, 13)


def test_a_longer_prompt_continues_the_known_one() -> None:
    """Step 3 is the last known one of four; then two more are new."""
    numbers = PrefixNumbers()
    place(numbers, 11, 12, 13)

    assert (3, 3, 4, 2) == place(numbers, 11, 12, 13, 14, 15)
    assert (2, 2, 6, 1) == place(numbers, 11, 12, 93)


def test_the_same_prompt_again_has_no_new_steps() -> None:
    numbers = PrefixNumbers()
    place(numbers, 11, 12)

    assert (2, 2, 3, 0) == place(numbers, 11, 12)


def test_only_full_steps_are_numbered() -> None:
    """Five blocks are two steps of two; the fifth block says nothing."""
    numbers = PrefixNumbers()

    assert (0, 0, 1, 2) == place(numbers, 11, 12, 13, 14, 15, step_blocks=2)
    assert (2, 2, 3, 0) == place(numbers, 11, 12, 13, 14, 16, step_blocks=2)
    assert (0, 0, 1, 0) == place(PrefixNumbers(), 11, step_blocks=2)


def test_what_is_used_stays_known() -> None:
    """Steps that are used again and again keep their numbers. Others are forgotten."""
    numbers = PrefixNumbers(max_steps=10)
    place(numbers, 1, 2, 3)
    place(numbers, 999)
    for block in range(100, 140):
        place(numbers, 1, 2, 3, block)

    assert (3, 3) == place(numbers, 1, 2, 3)[:2]
    assert (0, 0) == place(numbers, 999)[:2]


def test_as_many_are_remembered_as_the_limit_says() -> None:
    """Twice the limit, and the steps of one prompt."""
    numbers = PrefixNumbers(max_steps=50)
    for start in range(0, 100_000, 7):
        place(numbers, *range(start, start + 7))

    assert len(numbers._recent) + len(numbers._earlier) <= 107


def test_numbers_name_prefixes() -> None:
    """Random prompts that share prefixes: the same step has the same number as long as it is known."""
    rng = random.Random(1)
    numbers = PrefixNumbers()
    known: dict[tuple[int, ...], int] = {}
    for _ in range(500):
        path = tuple(rng.randrange(3) for _ in range(rng.randrange(1, 8)))
        prefixes = [path[:end] for end in range(1, len(path) + 1)]
        found = numbers.place(hashes(*[hash(prefix) % 2**64 for prefix in prefixes]), 1)
        shared = sum(prefix in known for prefix in prefixes)

        assert shared == found.shared
        assert found.parent == (known[prefixes[shared - 1]] if shared else 0)
        for offset, prefix in enumerate(prefixes[shared:]):
            known[prefix] = found.first + offset
