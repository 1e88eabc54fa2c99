import pytest

from benchmarks.progress import progress


def test_every_step_is_handed_on_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The bar goes to standard error: what is printed stays the report."""
    assert [1, 2, 3] == list(progress(iter([1, 2, 3]), "rounds", 3))
    told = capsys.readouterr()
    assert "rounds: 100%" in told.err
    assert "3/3" in told.err
    assert "" == told.out
