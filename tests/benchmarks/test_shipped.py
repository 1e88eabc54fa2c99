from pathlib import Path

import pytest

from benchmarks.processes import ChildFailedError
from benchmarks.shipped import MOST_KEPT, SOURCES, Shipped, build


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A checkout with a line of everything that a wheel is made of."""
    root = tmp_path / "checkout"
    for name in SOURCES:
        path = root / name / "module.py" if "." not in name else root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")
    return root


def copied(root: Path, into: Path) -> None:
    into.mkdir()
    (into / "module.py").write_bytes((root / "gateway" / "module.py").read_bytes())


def not_again(root: Path, into: Path) -> None:
    raise AssertionError(f"{root} is built again into {into}")


def test_the_unpacked_wheel_goes_before_the_checkout() -> None:
    """Else the sources in the working directory would be measured under its name."""
    shipped = Shipped(Path("unpacked"))

    assert "-P" in shipped.command
    assert {"PYTHONPATH": "unpacked"} == shipped.environment


def test_the_same_sources_are_built_once(sources: Path, tmp_path: Path) -> None:
    """It takes minutes, and a benchmark of two minutes is run again and again."""
    first = build(sources, tmp_path / "kept", copied)

    assert first == build(sources, tmp_path / "kept", not_again)
    assert "x = 1\n" == (first.directory / "module.py").read_text()


@pytest.mark.parametrize("name", SOURCES)
def test_whatever_changes_is_built(sources: Path, tmp_path: Path, name: str) -> None:
    """Else a benchmark would measure what was there before."""
    first = build(sources, tmp_path / "kept", copied)
    path = next((sources / name).rglob("*.py"), sources / name)
    path.write_text("x = 2\n")

    assert first != build(sources, tmp_path / "kept", copied)


def test_what_cannot_be_built_leaves_nothing_behind(sources: Path, tmp_path: Path) -> None:
    """The next run tries again."""

    def fails(root: Path, into: Path) -> None:
        into.mkdir()
        raise ChildFailedError(f"no compiler for {root}")

    with pytest.raises(ChildFailedError, match="no compiler"):
        build(sources, tmp_path / "kept", fails)

    assert [] == list((tmp_path / "kept").iterdir())


def test_a_few_are_kept(sources: Path, tmp_path: Path) -> None:
    """The ones that were used last."""
    built = []
    for number in range(MOST_KEPT + 2):
        (sources / "gateway" / "module.py").write_text(f"x = {number}\n")
        built.append(build(sources, tmp_path / "kept", copied).directory)

    assert set(built[2:]) == set((tmp_path / "kept").iterdir())
