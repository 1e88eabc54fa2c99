"""All pictures of the documentation, by the names of their files in docs/pictures."""

from collections.abc import Callable, Mapping
from pathlib import Path

from documentation.pictures import ttft_against_load
from documentation.pictures.architecture import architecture

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "pictures"

PICTURES: Mapping[str, Callable[[], str]] = {
    "architecture": architecture,
    "ttft-against-load": ttft_against_load.chat,
    "ttft-against-users": ttft_against_load.coding_agents,
}


def write(folder: Path) -> None:
    """Draw every picture into *folder*."""
    for name, draw in PICTURES.items():
        (folder / f"{name}.svg").write_text(draw(), encoding="utf-8")
