"""Facts about templates."""

import re
from pathlib import Path

import jinja2
import pytest

from gateway.console.templates import Templates

FOLDER = Path(__file__).parents[3] / "gateway" / "console" / "templates"
FILES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.html"))


SHARED: dict[str, object] = {
    "title": "",
    "key": None,
    "is_live": False,
    "notices": [],
    "navigation": [],
    "section": None,
}
FILES_OF_PAGES = {"console.css": "", "console.js": "", "icon.svg": ""}


def test_values_are_escaped() -> None:
    templates = Templates({"static": FILES_OF_PAGES, "version": "1", "documentation": ""})
    text = templates.render("error.html", {**SHARED, "text": "<script>'\"&"})

    assert "<p>&lt;script&gt;&#39;&#34;&amp;</p>" in text


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError):
        Templates({}).render("overview/workers.html", {})


@pytest.mark.parametrize("name", FILES)
def test_no_template_has_what_the_policy_forbids(name: str) -> None:
    """No style or script in the page, and no value that is not escaped."""
    text = (FOLDER / name).read_text(encoding="utf-8")

    assert [] == re.findall(r"<style|style=|<script(?! src=)| on[a-z]+=|javascript:|\|\s*safe|autoescape", text)


@pytest.mark.parametrize("name", FILES)
def test_every_form_has_the_token_of_the_session(name: str) -> None:
    """The form for the login has none: there is no session yet."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    forms = re.findall(r"<form[^>]*method=\"post\".*?</form>", text, re.DOTALL)

    assert [] == [form for form in forms if 'name="csrf"' not in form and name != "login.html"]
