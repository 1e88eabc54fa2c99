"""The shape of the source code in numbers: `python -m tests.structure` prints them.

Everything is read from the syntax trees of the files; nothing is imported. An import counts wherever it stands: inside
a function and under ``TYPE_CHECKING`` as well.
"""

import ast
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PRODUCT = ("cache_index", "routing", "gateway")
"""Top-level packages of the product, from the innermost to the outermost."""
SETTINGS = "gateway.settings"
IGNORED = {"__pycache__"}


@dataclass(frozen=True, slots=True)
class Module:
    """One file of source code."""

    name: str
    """Dotted, of a package without ``__init__``."""
    tree: ast.Module
    lines: int


@dataclass(frozen=True, slots=True)
class Definition:
    """A function or a class, with its length in lines: decorators do not count, the docstring does."""

    name: str
    lines: int


@dataclass(frozen=True, slots=True)
class Structure:
    """What is measured."""

    entries: tuple[str, ...]
    """Of the folder ``gateway``."""
    lines: int
    """Of ``gateway`` in all files of Python."""
    functions: tuple[Definition, ...]
    """The longest first."""
    classes: tuple[Definition, ...]
    importers: tuple[str, ...]
    """Modules outside of the settings that import them."""
    circles: tuple[tuple[str, ...], ...]
    """Rooms of ``gateway`` that import each other, directly or around several corners."""


def measured(root: Path = ROOT) -> Structure:
    """Return the numbers of the source code under *root*. Takes a second of processor time."""
    modules = [module for package in PRODUCT for module in modules_in(root, package)]
    of_gateway = [module for module in modules if module.name.startswith("gateway")]
    entries = sorted(path.name for path in (root / "gateway").iterdir() if path.name not in IGNORED)
    return Structure(
        entries=tuple(entries),
        lines=sum(module.lines for module in of_gateway),
        functions=_longest(modules, (ast.FunctionDef, ast.AsyncFunctionDef)),
        classes=_longest(modules, (ast.ClassDef,)),
        importers=tuple(sorted(module.name for module in of_gateway if _imports_settings(module))),
        circles=circles(room_imports(of_gateway)),
    )


def modules_in(root: Path, package: str) -> Iterator[Module]:
    """Return the modules of *package*, a folder of *root*."""
    for path in sorted((root / package).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield Module(name, ast.parse(text), text.count("\n"))


def imports_of(module: Module) -> Iterator[str]:
    """Return the dotted names that *module* imports: of ``from a import b`` both ``a`` and ``a.b``."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(name: str) -> str:
    """Return the room of the module *name*: its first two parts, a package or a loose module."""
    return ".".join(name.split(".")[:2])


def room_imports(modules: Sequence[Module]) -> dict[str, set[str]]:
    """Return the rooms that each room of *modules* imports, without itself."""
    rooms: dict[str, set[str]] = {}
    for module in modules:
        rooms.setdefault(room_of(module.name), set())
    rooms.pop("gateway", None)
    for module in modules:
        room = room_of(module.name)
        if room in rooms:
            rooms[room] |= {other for other in map(room_of, imports_of(module)) if other in rooms} - {room}
    return rooms


def circles(imports: Mapping[str, Iterable[str]]) -> tuple[tuple[str, ...], ...]:
    """Return the groups of names of which each reaches each other by *imports*."""
    reached = {name: _reached(name, imports.__getitem__) for name in imports}
    groups = {
        tuple(sorted({name} | {other for other in reached[name] if name in reached[other]}))
        for name in imports
        if name in reached[name]
    }
    return tuple(sorted(groups))


def table(structure: Structure, shown: int = 5) -> str:
    """Return *structure* as a table in Markdown, with the *shown* longest of each kind."""
    rows = [
        ("entries of gateway/", str(len(structure.entries)), ""),
        ("lines of gateway/", f"{structure.lines:,}", ""),
        ("longest function", *_first(structure.functions, shown)),
        ("longest class", *_first(structure.classes, shown)),
        ("modules that import the settings", str(len(structure.importers)), ""),
        ("circles between rooms", str(len(structure.circles)), "; ".join(map(" ".join, structure.circles))),
    ]
    return "\n".join(["| what | number | which |", "|---|---|---|", *[f"| {' | '.join(row)} |" for row in rows]])


def _first(definitions: tuple[Definition, ...], shown: int) -> tuple[str, str]:
    named = ", ".join(f"{definition.name} {definition.lines}" for definition in definitions[:shown])
    return str(definitions[0].lines), named


def _reached(name: str, imports: Callable[[str], Iterable[str]]) -> set[str]:
    reached: set[str] = set()
    open_names = list(imports(name))
    while open_names:
        other = open_names.pop()
        if other not in reached:
            reached.add(other)
            open_names += imports(other)
    return reached


def _longest(modules: Iterable[Module], kinds: tuple[type[ast.AST], ...]) -> tuple[Definition, ...]:
    found = [
        Definition(f"{module.name}.{name}", lines)
        for module in modules
        for name, lines in _definitions(module.tree, kinds)
    ]
    return tuple(sorted(found, key=lambda definition: (-definition.lines, definition.name)))


def _definitions(tree: ast.AST, kinds: tuple[type[ast.AST], ...], prefix: str = "") -> Iterator[tuple[str, int]]:
    for node in ast.iter_child_nodes(tree):
        name = prefix
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{node.name}"
            if isinstance(node, kinds):
                yield name, (node.end_lineno or node.lineno) - node.lineno + 1
            name += "."
        yield from _definitions(node, kinds, name)


def _imports_settings(module: Module) -> bool:
    if module.name == SETTINGS or module.name.startswith(f"{SETTINGS}."):
        return False
    return any(name == SETTINGS or name.startswith(f"{SETTINGS}.") for name in imports_of(module))


if __name__ == "__main__":
    sys.stdout.write(table(measured()) + "\n")
