import signal

from gateway.server.stop_signals import handled_by


def test_a_stop_signal_is_told_inside_only() -> None:
    """SIGINT and SIGTERM; at the end those who handled them before do so again."""
    outer: list[int] = []
    inner: list[int] = []

    with handled_by(lambda number, _: outer.append(number)):
        with handled_by(lambda number, _: inner.append(number)):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)

    assert [signal.SIGINT, signal.SIGTERM] == inner
    assert [signal.SIGTERM] == outer
