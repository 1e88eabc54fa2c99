"""Strings or parts, reported from the template; what is expected here is what vLLM 0.32 finds in the same templates."""

import pytest

from gateway.models.tokenizing.content_format import content_format_of
from gateway.models.tokenizing.conversation import ContentFormat
from gateway.models.tokenizing.sandbox import Sandbox
from tests.gateway.models.tokenizing import templates
from tests.gateway.models.tokenizing.examples import NEW_YEAR

LOOP = "{% for m in messages %}"

STRING = {
    "chatml": templates.CHATML,
    "llama": templates.LLAMA3,
    "qwen": templates.QWEN3,
    "no messages": "hello",
    "a loop over something else": LOOP + "{% for t in tools %}{{ t }}{% endfor %}{% endfor %}",
    "a loop over another field": LOOP + "{% for c in m.tool_calls %}{{ c }}{% endfor %}{% endfor %}",
    "a loop over a chosen message": "{% set last = messages[-1] %}{% for c in last.content %}{{ c }}{% endfor %}",
    "a member by variable": LOOP + "{% for c in m[key] %}{{ c }}{% endfor %}{% endfor %}",
    "several names at once": "{% for i, m in messages %}{% for c in m.content %}{{ c }}{% endfor %}{% endfor %}",
    "parts under several names": LOOP + "{% for a, b in m.content %}{{ a }}{% endfor %}{% endfor %}",
    "a namespace": "{% set ns = namespace() %}{% set ns.all = messages %}"
    + LOOP
    + "{% for c in m.content %}{{ c }}{% endfor %}{% endfor %}",
    "a macro that is given something else": "{% macro show(content) %}{% for c in content %}{{ c }}{% endfor %}"
    "{% endmacro %}" + LOOP + "{{ show(m.role) }}{% endfor %}",
}
PARTS = {
    "vision": templates.VISION,
    "plain": LOOP + "{% for c in m.content %}{{ c }}{% endfor %}{% endfor %}",
    "by key": LOOP + "{% for c in m['content'] %}{{ c }}{% endfor %}{% endfor %}",
    "of a slice": "{% for m in messages[1:] %}{% for c in m.content[:2] %}{{ c }}{% endfor %}{% endfor %}",
    "through filters": "{% for m in messages | list %}"
    "{% for c in m.content | reverse %}{{ c }}{% endfor %}{% endfor %}",
    "through names": "{% set rest = messages[1:] %}{% set more = rest %}"
    "{% for m in more %}{% for c in m.content %}{{ c }}{% endfor %}{% endfor %}",
    "under the usual name": LOOP + "{% set content = m.content %}{% for c in content %}{{ c }}{% endfor %}{% endfor %}",
    "in a macro by place": "{% macro show(what) %}{% for c in what %}{{ c }}{% endfor %}{% endmacro %}"
    + LOOP
    + "{{ show(m.content) }}{% endfor %}",
    "in a macro by name": "{% macro show(a, what) %}{% for c in what %}{{ c }}{% endfor %}{% endmacro %}"
    + LOOP
    + "{{ show(1, what=m['content']) }}{% endfor %}",
}


@pytest.mark.parametrize("name", STRING)
def test_a_template_that_walks_over_no_content_takes_strings(name: str) -> None:
    """Also where names are too tangled to follow."""
    assert "string" == found(STRING[name])


@pytest.mark.parametrize("name", PARTS)
def test_a_template_that_walks_over_content_takes_parts(name: str) -> None:
    """The way by which the content reaches the loop does not matter."""
    assert "openai" == found(PARTS[name])


def test_names_that_go_round_in_a_circle_are_followed_once() -> None:
    """A template must not be able to hold up the start."""
    circle = "{% set a = messages %}{% set b = a %}{% set a = b %}"

    assert "openai" == found(circle + "{% for m in b %}{% for c in m.content %}{{ c }}{% endfor %}{% endfor %}")


def found(source: str) -> ContentFormat:
    return content_format_of(Sandbox(lambda: NEW_YEAR).parse(source))
