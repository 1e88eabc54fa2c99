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
PRODUCT = ("cache_index", "routing", "engine_model", "replay", "gateway", "simulator")
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
    entries: tuple[str, ...]
    lines: int
    functions: tuple[Definition, ...]
    """The longest first."""
    classes: tuple[Definition, ...]
    importers: tuple[str, ...]
    """Modules outside of the settings that import them."""
    circles: tuple[tuple[str, ...], ...]
    """Modules and packages side by side that import each other, directly or around several corners."""


def measured(root: Path = ROOT) -> Structure:
    """Return the numbers of the source code under *root*. Takes a second of processor time."""
    modules = [module for package in PRODUCT for module in modules_in(root, package)]
    of_gateway = [module for module in modules if module.name.startswith("gateway")]
    entries = sorted(path.name for path in (root / "gateway").iterdir() if has_source(path))
    return Structure(
        entries=tuple(entries),
        lines=sum(module.lines for module in modules if module.name.startswith(("gateway", "simulator"))),
        functions=_longest(modules, (ast.FunctionDef, ast.AsyncFunctionDef)),
        classes=_longest(modules, (ast.ClassDef,)),
        importers=tuple(sorted(module.name for module in of_gateway if _imports_settings(module))),
        circles=circles(neighbor_imports(modules)),
    )


def has_source(path: Path) -> bool:
    """Return whether *path* is a file, or a folder with more than the bytecode of modules that are gone."""
    if path.is_file():
        return True
    return path.name not in IGNORED and any(map(has_source, path.iterdir()))


def modules_in(root: Path, package: str) -> Iterator[Module]:
    """Return the modules of *package*, a folder of *root*."""
    for path in sorted((root / package).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield Module(name, ast.parse(text), text.count("\n"))


def imports_of(module: Module) -> Iterator[str]:
    """Return the dotted names that *module* imports: of ``from a import b`` both ``a`` and ``a.b``."""
    for node in _statements(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def neighbor_imports(modules: Sequence[Module]) -> dict[str, set[str]]:
    """Return, for each module or package, the neighbors that it imports: those directly inside the same package.

    An import between two modules counts for the two ancestors that stand side by side.
    """
    names = {module.name for module in modules}
    found: dict[str, set[str]] = {}
    for module in modules:
        for other in imports_of(module):
            if other in names:
                ours, theirs = _apart(module.name.split("."), other.split("."))
                if ours != theirs:
                    found.setdefault(ours, set()).add(theirs)
                    found.setdefault(theirs, set())
    return found


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
        ("lines of gateway/ and simulator/", f"{structure.lines:,}", ""),
        ("longest function", *_first(structure.functions, shown)),
        ("longest class", *_first(structure.classes, shown)),
        ("modules that import the settings", str(len(structure.importers)), ", ".join(structure.importers)),
        ("circles between neighbors", str(len(structure.circles)), "; ".join(map(" ".join, structure.circles))),
    ]
    return "\n".join(["| what | number | which |", "|---|---|---|", *[f"| {' | '.join(row)} |" for row in rows]])


def _apart(ours: Sequence[str], theirs: Sequence[str]) -> tuple[str, str]:
    """Return the names of the two ancestors at which the paths part; the same name twice if one contains the other."""
    depth = next((i for i, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), None)
    end = min(len(ours), len(theirs)) if depth is None else depth + 1
    return ".".join(ours[:end]), ".".join(theirs[:end])


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
    for node in _parts(tree):
        name = prefix
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{node.name}"
            if isinstance(node, kinds):
                yield name, (node.end_lineno or node.lineno) - node.lineno + 1
            name += "."
        yield from _definitions(node, kinds, name)


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Return all statements below *tree*."""
    for node in _parts(tree):
        yield node
        yield from _statements(node)


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """Return the statements directly inside *node*. No expression contains a statement, so expressions are left out."""
    for field in ("body", "handlers", "orelse", "finalbody", "cases"):
        yield from getattr(node, field, ())


def _imports_settings(module: Module) -> bool:
    if module.name == SETTINGS or module.name.startswith(f"{SETTINGS}."):
        return False
    return any(name == SETTINGS or name.startswith(f"{SETTINGS}.") for name in imports_of(module))


if __name__ == "__main__":
    sys.stdout.write(table(measured()) + "\n")
