from pathlib import Path

from gateway.telemetry.shapes.layout import SUFFIX
from gateway.telemetry.shapes.reader import read_shapes
from tests.gateway.telemetry.shapes.examples import UNIX_S, Times, completed, recorded, recorder


def test_shapes_come_in_order_of_arrival(tmp_path: Path) -> None:
    """They were recorded in order of completion."""
    shapes = recorded(tmp_path, completed("abcd", 5.0), completed("abcd", 1.0))

    assert [UNIX_S + 1.0, UNIX_S + 5.0] == [shape.at for shape in shapes]


def test_a_time_and_a_model_can_be_chosen(tmp_path: Path) -> None:
    recorded(tmp_path, completed("abcd", 5.0), completed("abcd", 1.0))

    assert 1 == len(read_shapes(tmp_path, since=UNIX_S + 2.0))
    assert 2 == len(read_shapes(tmp_path, model="tiny"))
    assert [] == read_shapes(tmp_path, model="other")


def test_a_crash_loses_the_last_frame_only(tmp_path: Path) -> None:
    """A file that was cut in the middle of a record."""
    times = Times()
    one = recorder(tmp_path, times)
    for second in range(3):
        one.observe([completed("abcd", float(second))])
        one.write()
    one.close()
    (path,) = tmp_path.glob(f"*{SUFFIX}")
    path.write_bytes(path.read_bytes()[:-30])

    assert [UNIX_S, UNIX_S + 1.0] == [shape.at for shape in read_shapes(tmp_path)]


def test_an_empty_folder_has_no_shapes(tmp_path: Path) -> None:
    (tmp_path / f"empty{SUFFIX}").write_bytes(b"")

    assert [] == read_shapes(tmp_path)


def test_prefixes_are_shared_over_files(tmp_path: Path) -> None:
    """The second prompt extends the first, which is in an earlier file."""
    times = Times()
    one = recorder(tmp_path, times, max_bytes=8 * 150)
    one.observe([completed("abcd", 0.0)])
    one.write()
    one.observe([completed("abcdefgh", 1.0)])
    one.write()
    one.close()
    first, second = read_shapes(tmp_path)

    assert 2 == len(list(tmp_path.glob(f"*{SUFFIX}")))
    assert [(0, 1)] == first.steps.spans()
    assert [(0, 1), (1, 2)] == second.steps.spans()
