from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from documentation.pictures.drawing import WIDTH
from documentation.pictures.gallery import FOLDER, PICTURES, write


@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_in_docs_is_what_the_code_draws(name: str) -> None:
    """`python -m documentation.pictures` draws all of them again."""
    assert PICTURES[name]() == (FOLDER / f"{name}.svg").read_text(encoding="utf-8")


def test_every_picture_in_docs_is_drawn_by_code_or_the_logo() -> None:
    assert {"logo", *PICTURES} == {path.stem for path in FOLDER.glob("*.svg")}


def test_every_picture_is_shown_on_a_page() -> None:
    root = FOLDER.parents[1]
    pages = "".join(path.read_text(encoding="utf-8") for path in (root / "README.md", *(root / "docs").rglob("*.md")))

    assert [] == [name for name in PICTURES if f"pictures/{name}.svg)" not in pages]


@pytest.mark.parametrize("name", PICTURES)
def test_every_text_and_box_is_inside_the_picture(name: str) -> None:
    root = ET.fromstring(PICTURES[name]())
    height = float(root.attrib["viewBox"].split()[3])
    places = [(float(part.attrib["x"]), float(part.attrib["y"])) for part in root.iter() if "x" in part.attrib]

    assert [] == [place for place in places if not (0 <= place[0] <= WIDTH and 0 <= place[1] <= height)]


@pytest.mark.parametrize("name", PICTURES)
def test_no_text_is_smaller_than_13_units(name: str) -> None:
    texts = ET.fromstring(PICTURES[name]()).iter("{http://www.w3.org/2000/svg}text")

    assert [] == [text.text for text in texts if float(text.attrib["font-size"]) < 13]


def test_all_pictures_are_written(tmp_path: Path) -> None:
    write(tmp_path)

    assert set(PICTURES) == {path.stem for path in tmp_path.iterdir()}
