from pathlib import Path

import pytest

from documentation.link_check import faults


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "index.html").write_text('<h1 id="top">B</h1>')
    return tmp_path


@pytest.mark.parametrize(
    "body",
    [
        '<a href="b/">B</a>',
        '<a href="b/#top">B</a>',
        '<a href="b/index.html#top">B</a>',
        '<a href="#x">X</a><p id="x">',
        '<a href="https://example.com/">outside</a>',
        '<link rel="canonical" href="https://example.com/">',
        '<script src="b/index.html"></script>',
    ],
)
def test_what_leads_somewhere_is_no_fault(site: Path, body: str) -> None:
    (site / "index.html").write_text(body)

    assert [] == faults(site)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="c/">C</a>', "index.html: c/ leads nowhere"),
        ('<a href="b/#bottom">B</a>', "index.html: b/#bottom has no such anchor"),
        ('<a href="#x">X</a>', "index.html: #x has no such anchor"),
        ('<img src="c.svg">', "index.html: c.svg leads nowhere"),
        ('<a href="../../x.html">X</a>', "index.html: ../../x.html leads nowhere"),
        (
            '<script src="https://cdn.example.com/x.js"></script>',
            "index.html: https://cdn.example.com/x.js is loaded from outside",
        ),
        (
            '<link rel="stylesheet" href="//fonts.example.com/x.css">',
            "index.html: //fonts.example.com/x.css is loaded from outside",
        ),
    ],
)
def test_each_fault_is_named_with_its_page(site: Path, body: str, fault: str) -> None:
    (site / "index.html").write_text(body)

    assert [fault] == faults(site)
