from gateway.protocol.interruption import Interruption


def test_a_request_is_interrupted_once() -> None:
    cuts: list[int] = []
    interruption = Interruption(0.1)
    interruption.begin(lambda: cuts.append(1))
    interruption.interrupt()
    interruption.interrupt()

    assert ([1], True, 0.1) == (cuts, interruption.is_done, interruption.yields_in_s)


def test_a_request_is_not_interrupted_before_its_begin_and_after_its_end() -> None:
    cuts: list[int] = []
    interruption = Interruption(0.1)
    interruption.interrupt()
    interruption.begin(lambda: cuts.append(1))
    interruption.end()
    interruption.interrupt()

    assert ([], False) == (cuts, interruption.is_done)
