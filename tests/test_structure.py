"""Facts about how the source code is measured, and that it does not become worse."""

from pathlib import Path

import pytest

from tests.structure import Definition, Structure, circles, measured, table

SOURCES = {
    "cache_index/index.py": "class Index:\n    def find(self):\n        return 1\n",
    "routing/order.py": "from cache_index import index\n",
    "gateway/__init__.py": "",
    "gateway/app/build.py": "from gateway.settings import Settings\nfrom gateway.proxy import life\n",
    "gateway/proxy/life.py": "def serve():\n    from gateway.app.build import x\n    return x\n",
    "gateway/settings/schema.py": "import gateway.settings\n",
    "gateway/errors.py": "class Fault(Exception):\n    pass\n",
}


@pytest.fixture
def structure(tmp_path: Path) -> Structure:
    for name, text in SOURCES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return measured(tmp_path)


@pytest.fixture(scope="module")
def own() -> Structure:
    return measured()


def test_entries_are_what_the_folder_lists(structure: Structure) -> None:
    assert ("__init__.py", "app", "errors.py", "proxy", "settings") == structure.entries


def test_lines_are_those_of_the_gateway(structure: Structure) -> None:
    assert 8 == structure.lines


def test_functions_and_classes_come_by_length(structure: Structure) -> None:
    expected = (Definition("gateway.proxy.life.serve", 3), Definition("cache_index.index.Index.find", 2))
    assert expected == structure.functions
    assert Definition("cache_index.index.Index", 3) == structure.classes[0]


def test_settings_may_import_themselves(structure: Structure) -> None:
    assert ("gateway.app.build",) == structure.importers


def test_imports_inside_functions_close_circles(structure: Structure) -> None:
    assert (("gateway.app", "gateway.proxy"),) == structure.circles


def test_circles_are_found_at_every_depth(tmp_path: Path) -> None:
    sources = {"a/b.py": "import routing.a.c.d\n", "a/c/d.py": "from routing.a import b\n"}
    for name, text in sources.items():
        path = tmp_path / "routing" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "gateway").mkdir()

    assert (("routing.a.b", "routing.a.c"),) == measured(tmp_path).circles


def test_a_circle_may_have_several_corners() -> None:
    imports = {"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"], "e": []}

    assert (("a", "b", "c"),) == circles(imports)


def test_the_table_names_the_longest(structure: Structure) -> None:
    assert "| longest function | 3 | gateway.proxy.life.serve 3 |" in table(structure, shown=1)


def test_the_shape_is_that_of_the_design(own: Structure) -> None:
    """Sixteen rooms, short functions and classes, settings read in one room, one direction."""
    assert len(own.entries) <= 19
    assert own.functions[0].lines <= 60
    assert own.classes[0].lines <= 300
    assert len(own.importers) <= 15
    assert () == own.circles
