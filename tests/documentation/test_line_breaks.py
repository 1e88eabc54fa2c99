from pathlib import Path

import pytest

from documentation import line_breaks


@pytest.mark.parametrize(
    ("code", "broken"),
    [
        ("server.max_body_bytes", "server.<wbr>max_<wbr>body_<wbr>bytes"),
        ("models[].workers[].url", "models[].<wbr>workers[].<wbr>url"),
        ("GET /v1/chat/completions", "GET /v1/<wbr>chat/<wbr>completions"),
        ("prefix_aware", "prefix_aware"),
        ("WARMGATE_SERVER__PORT", "WARMGATE_<wbr>SERVER__<wbr>PORT"),
        ("127.0.0.1:8080 and 0.5", "127.0.0.1:8080 and 0.5"),
    ],
)
def test_a_name_can_be_broken_between_its_parts(code: str, broken: str) -> None:
    assert f"<td><code>{broken}</code></td>" == line_breaks.breakable(f"<td><code>{code}</code></td>")


def test_an_option_is_not_broken_after_its_hyphens() -> None:
    html = '<code>warmgate doctor <span class="option">--url</span> URL</code>'

    assert html == line_breaks.breakable("<code>warmgate doctor --url URL</code>")


def test_blocks_of_code_and_text_stay_as_they_are() -> None:
    html = "<p>a_b</p><pre><span></span><code>a_b\nc.d</code></pre>"

    assert html == line_breaks.breakable(html)


def test_every_page_of_a_site_is_changed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    page = tmp_path / "a" / "index.html"
    page.write_text("<code>server.max_body_bytes</code>", encoding="utf-8")

    line_breaks.add(tmp_path)

    assert "<code>server.<wbr>max_<wbr>body_<wbr>bytes</code>" == page.read_text(encoding="utf-8")
