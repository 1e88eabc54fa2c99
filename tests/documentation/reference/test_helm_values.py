import json

import pytest
import yaml

from deploy.chart_readme import CHART, Value, readme, values_of
from documentation.reference.helm_values import page

TEXTS = {
    name: (CHART / name).read_text(encoding="utf-8") for name in ("Chart.yaml", "values.yaml", "values.schema.json")
}
VALUES = list(values_of(TEXTS["values.yaml"], json.loads(TEXTS["values.schema.json"])))


def test_the_page_has_a_section_for_each_title_of_the_values_file() -> None:
    section = page().partition("## Network access")[2].partition("\n## ")[0]

    assert (
        '| `service.type` | ClusterIP or NodePort or LoadBalancer | `"ClusterIP"` | Type of the Service. |' in section
    )
    assert "rbac.create" not in section


def test_the_readme_of_the_chart_lists_its_values() -> None:
    """`python -m deploy.chart_readme` writes it."""
    assert readme(*TEXTS.values()) == (CHART / "README.md").read_text(encoding="utf-8")


def test_the_table_of_values_has_each_value_once() -> None:
    """Every path of values.yaml leads to a row."""
    keys = [value.key for value in VALUES]

    assert len(set(keys)) == len(keys)
    assert set(yaml.safe_load(TEXTS["values.yaml"])) == {key.partition(".")[0] for key in keys}
    assert {"image.repository", "config.models", "ingress.alb.scheme"} <= set(keys)


def test_every_value_has_a_description() -> None:
    """The description is a sentence."""
    assert [] == [value.key for value in VALUES if not value.description.endswith(".")]


def test_a_description_is_the_comment_above_a_value() -> None:
    """It begins with two hyphens. Other comments describe nothing."""
    text = (
        "# ---- One\n\n# -- a group\na:\n  # no description\n  b: 1\n\n# see below\n# -- above,\n# twice\nc: {d: []}\n"
    )

    assert [("a", "a group", True), ("a.b", "", False), ("c", "above, twice", False)] == [
        (value.key, value.description, value.group) for value in values_of(text, {})
    ]
    assert {"One"} == {value.section for value in values_of(text, {})}


@pytest.mark.parametrize(
    ("schema", "type_"),
    [
        ({}, "integer"),
        ({"type": "array"}, "list"),
        ({"type": ["integer", "null"]}, "integer or null"),
        ({"anyOf": [{"type": "integer"}, {"$ref": "#/definitions/A"}]}, "integer or string"),
        ({"enum": ["", "alb"]}, '"" or alb'),
    ],
)
def test_the_type_is_that_of_the_schema(schema: dict[str, object], type_: str) -> None:
    """A value that the schema does not know has the type of its default."""
    properties = {"properties": {"a": schema} if schema else {}, "definitions": {"A": {"type": "string"}}}

    assert [type_] == [value.type for value in values_of("a: 1\n", properties)]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Value("", "a", "string", "x", ""), '`"x"`'),
        (Value("", "a", "object", {"b": 1}, "", group=True), ""),
        (Value("", "a", "string", "x" * 200, ""), "see values.yaml"),
    ],
)
def test_a_default_is_shown_if_it_is_short(value: Value, shown: str) -> None:
    assert shown == value.shown_default
