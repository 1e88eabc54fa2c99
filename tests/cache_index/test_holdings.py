from cache_index.holdings import Holdings

WHOLE = 0b1111


def test_a_worker_holds_what_it_was_reported_to_hold() -> None:
    """It answers what of it was held before."""
    holdings = Holdings()

    assert 0 == holdings.hold(3, 0b0011, WHOLE)
    assert 0b0010 == holdings.hold(3, 0b0110, WHOLE)
    assert 0b0111 == holdings.held_by(3, WHOLE)
    assert 0 == holdings.held_by(4, WHOLE)


def test_a_worker_with_the_whole_run_is_a_bit_in_full() -> None:
    """It is full from the last block that comes to the first that goes."""
    holdings = Holdings()
    holdings.hold(3, 0b0111, WHOLE)
    holdings.hold(5, WHOLE, WHOLE)
    holdings.hold(3, 0b1000, WHOLE)

    assert (1 << 3 | 1 << 5, None) == (holdings.full, holdings.partial)

    holdings.release(3, 0b0001, WHOLE)

    assert (1 << 5, {3: 0b1110}) == (holdings.full, holdings.partial)
    assert 1 << 3 | 1 << 5 == holdings.workers()


def test_nothing_is_left_of_a_worker_without_blocks() -> None:
    """Whether it held all of them or some."""
    holdings = Holdings()
    holdings.hold(3, WHOLE, WHOLE)
    holdings.hold(5, 0b0100, WHOLE)
    holdings.hold(6, 0b0100, WHOLE)
    holdings.release(3, WHOLE, WHOLE)
    holdings.release(5, 0b1100, WHOLE)

    assert 1 << 6 == holdings.workers()
    assert holdings

    holdings.release(6, WHOLE, WHOLE)

    assert not holdings
    assert holdings.partial is None


def test_no_one_holds_what_a_run_is_lengthened_by() -> None:
    """A worker that held all of it holds its former blocks."""
    holdings = Holdings()
    holdings.hold(3, WHOLE, WHOLE)
    holdings.hold(5, 0b0100, WHOLE)
    holdings.lengthened(WHOLE)

    assert 0 == holdings.full
    assert (WHOLE, 0b0100) == (holdings.held_by(3, 0b11111), holdings.held_by(5, 0b11111))


def test_a_split_gives_each_part_its_blocks() -> None:
    """Some workers hold all of one part and nothing, or some, of the other."""
    upper = Holdings()
    for slot, blocks in enumerate([WHOLE, 0b0011, 0b1100, 0b0101, 0b0111]):
        upper.hold(slot, blocks, WHOLE)
    lower = upper.split(2, WHOLE)

    assert (0b10011, {3: 0b01}) == (upper.full, upper.partial)
    assert (0b00101, {3: 0b01, 4: 0b01}) == (lower.full, lower.partial)
    upper.check(0b11)
    lower.check(0b11)
