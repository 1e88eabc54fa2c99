"""The environment of chat templates, beside the one of Jinja that it is to equal."""

from datetime import UTC, datetime
from typing import Any

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2.sandbox import ImmutableSandboxedEnvironment

from gateway.models.tokenizing.sandbox import Sandbox

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
PLAIN = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
NAMES = [
    "content",
    "items",
    "keys",
    "clear",
    "__class__",
    "_x",
    "format",
    "upper",
    "startswith",
    "index0",
    "first",
    "mro",
]


def rendered(source: str, **variables: Any) -> str:
    return Sandbox(lambda: NOON).from_string(source).render(**variables)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ x | tojson }}", '{"a": "<é>", "b": 1.0}'),
        ("{{ x | tojson(indent=2) }}", '{\n  "a": "<é>",\n  "b": 1.0\n}'),
        ("{{ x | tojson(true) }}", '{"a": "<\\u00e9>", "b": 1.0}'),
        ("{{ x | tojson(separators=(',', ':'), sort_keys=true) }}", '{"a":"<é>","b":1.0}'),
        ("{{ strftime_now('%d %b %Y') }}", "02 Jan 2026"),
        ("{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "1"),
        ("{% for i in [1, 2, 3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "13"),
        ("{% generation %}a{{ x.a }}{% endgeneration %}b", "a<é>b"),
        ("  {% if true %}\n  a\n  {% endif %}\n", "  a\n"),
    ],
)
def test_templates_find_what_they_find_with_transformers(source: str, text: str) -> None:
    """Filters, functions, blocks, white space."""
    assert text == rendered(source, x={"a": "<é>", "b": 1.0})


def test_a_template_can_refuse() -> None:
    """With its own words."""
    with pytest.raises(jinja2.TemplateError, match="roles must alternate"):
        rendered("{{ raise_exception('roles must alternate') }}")


@pytest.mark.parametrize(
    "source",
    [
        "{{ x.__class__.__mro__ }}",
        "{{ 'a'.__class__ }}",
        "{{ x.clear() }}",
        "{{ x.items.__self__ }}",
        "{{ [1].append(2) }}",
        "{{ '{0.__class__}'.format(x) }}",
        "{% set f = '{0.__class__}'.format %}{{ f(x) }}",
        "{% set ns = namespace(f='{0.__class__}'.format) %}{{ ns.f(x) }}",
        "{% for i in [1] %}{{ loop.__class__ }}{% endfor %}",
        "{% for i in [1] %}{{ loop.__class__.__init__ }}{% endfor %}",
        "{% for i in [1] %}{{ loop._iterable.append(1) }}{% endfor %}",
    ],
)
def test_a_template_cannot_get_out(source: str) -> None:
    """Nothing of Python's own can be reached, and nothing changed: it ends, or there is nothing there."""
    thing = {"a": 1}

    assert outcome(PLAIN, source, thing) == outcome(Sandbox(lambda: NOON), source, thing)
    assert outcome(PLAIN, source, thing) in ("", jinja2.exceptions.SecurityError)
    assert {"a": 1} == thing


def outcome(environment: jinja2.Environment, source: str, thing: Any) -> str | type[Exception]:
    try:
        return environment.from_string(source).render(x=thing)
    except jinja2.TemplateError as error:
        return type(error)


@given(
    thing=st.one_of(
        st.dictionaries(st.sampled_from(NAMES), st.integers() | st.text(max_size=3), max_size=3),
        st.text(max_size=3),
        st.lists(st.integers(), max_size=2),
        st.integers(),
        st.none(),
    ),
    name=st.sampled_from(NAMES),
)
def test_lookups_find_what_jinjas_own_sandbox_finds(thing: Any, name: str) -> None:
    """The quick ways change nothing but the time."""
    found, expected = Sandbox(lambda: NOON).getattr(thing, name), PLAIN.getattr(thing, name)

    assert type(expected) is type(found)
    if not isinstance(expected, jinja2.Undefined) and not callable(expected):
        assert expected == found


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in [3, 4] %}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}"
        "{{ loop.revindex }}{{ loop.previtem }}{{ loop.changed(i) }}{{ loop.nothing }}{% endfor %}",
        "{% set ns = namespace(a=1, b='x', c=[1]) %}{% set ns.a = 2 %}{{ ns.a }}{{ ns.b }}{{ ns.c }}{{ ns.nothing }}",
        "{{ 'abc'.upper() }}{{ 'abc'.startswith('a') }}{{ 'a b'.split() }}{{ 'abc'.nothing }}",
        "{{ d.x }}{{ d['x'] }}{{ d.nothing is defined }}{{ d.items() | list }}{{ d.get('x') }}",
    ],
)
def test_templates_give_what_jinjas_own_sandbox_gives(source: str) -> None:
    """Loops, namespaces, strings, dicts."""
    assert PLAIN.from_string(source).render(d={"x": 1}) == rendered(source, d={"x": 1})
