import re

from gateway.api.admin_v1.findings.finding import KINDS, PAGE, Finding
from tests.test_repository import ROOT


def test_a_finding_has_the_severity_and_remedy_of_its_kind() -> None:
    found = Finding(code="no-store", text="Text.")

    assert ("warning", True, "gateway") == (found.severity, found.is_failure, found.concerns)
    assert "Set store.url" in found.remedy
    assert "docs/operate/troubleshoot-by-symptom.md#no-store" == found.page


def test_a_finding_may_have_another_severity() -> None:
    found = Finding(code="lost-events", text="Text.", model="tiny", worker="w1", other_severity="info")

    assert ("info", False, "model tiny, worker w1") == (found.severity, found.is_failure, found.concerns)


def test_codes_are_anchors() -> None:
    """Lower-case words with hyphens, as Markdown makes them of headings."""
    assert [] == [code for code in KINDS if not re.fullmatch(r"[a-z]+(-[a-z]+)*", code)]


def test_the_page_has_a_section_for_each_code() -> None:
    """This holds once the page exists."""
    page = ROOT / PAGE
    text = page.read_text(encoding="utf-8") if page.exists() else "".join(f"## {code}\n" for code in KINDS)
    headings = re.findall(r"^#+ +(.+?) *(?:\{#([a-z-]+)\})?$", text, re.MULTILINE)
    anchors = {given or re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") for title, given in headings}
    anchors |= set(re.findall(r'id="([a-z-]+)"', text))

    assert [] == [code for code in KINDS if code not in anchors]
