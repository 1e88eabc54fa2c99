from gateway.server.date_line import DateLine


def test_the_date_is_that_of_the_second() -> None:
    """As RFC 9110 writes it; the clock is asked once a second, and at the begin of the next one."""
    asked: list[float] = []

    def wall_clock() -> float:
        asked.append(784_111_777.25 + len(asked) * 0.8)
        return asked[-1]

    date = DateLine(wall_clock)
    lines = [date.line(now) for now in (5.0, 5.5, 5.7, 5.76, 6.5)]

    assert b"date: Sun, 06 Nov 1994 08:49:37 GMT\r\n" == lines[0] == lines[1] == lines[2]
    assert b"date: Sun, 06 Nov 1994 08:49:38 GMT\r\n" == lines[3] == lines[4]
    assert 2 == len(asked)
