import pytest

from benchmarks.progress import progress


def test_every_step_is_handed_on_and_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """The bar goes to standard error: what is printed stays the report."""
    assert [1, 2, 3] == list(progress(iter([1, 2, 3]), "rounds", 3))
    reported = capsys.readouterr()
    assert "rounds: 100%" in reported.err
    assert "3/3" in reported.err
    assert "" == reported.out
