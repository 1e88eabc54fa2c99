"""Draw sentences for the exit test of the language: `python -m tests.sentences SEED` prints 60 of them.

A reader who has seen nothing else of the project judges each: is it clear and idiomatic at first reading? Twenty are
docstrings of the product, twenty stand in its pages, twenty are messages, help texts or descriptions of settings.
"""

import ast
import random
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.language import ROOT, docstrings
from tests.structure import PRODUCT

PAGES = ("README.md", "docs", "deploy/README.md", "gateway", "routing", "cache_index", "simulator")
EACH = 20
MIN_WORDS = 4


def drawn(seed: int, root: Path = ROOT) -> dict[str, list[str]]:
    """Return the sentences of each kind for *seed*."""
    rng = random.Random(seed)
    modules = [path for package in PRODUCT for path in sorted((root / package).rglob("*.py"))]
    pages = [
        page for name in PAGES for page in ([root / name] if name.endswith(".md") else (root / name).rglob("*.md"))
    ]
    kinds = {
        "docstrings": (first_sentence(text) for path in modules for _, text in docstrings(_tree(path))),
        "pages": (text for page in sorted(pages) for text in sentences_in(page.read_text(encoding="utf-8"))),
        "messages": (text for path in modules for text in messages_in(_tree(path))),
    }
    return {
        kind: rng.sample(sorted({text for text in texts if _is_sentence(text)}), EACH) for kind, texts in kinds.items()
    }


def first_sentence(docstring: str) -> str:
    """Return the first paragraph of *docstring* on one line."""
    return " ".join(docstring.strip().split("\n\n")[0].split())


def sentences_in(page: str) -> Iterator[str]:
    """Yield the sentences of a page in Markdown, without code, tables and headings."""
    prose = re.sub(r"^ *```.*?^ *```$", "", page, flags=re.DOTALL | re.MULTILINE)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", prose):
        if not block.lstrip().startswith(("|", "#", "<", "    ")):
            yield from re.split(r"(?<=[.!?])\s+(?=[A-Z`*])", " ".join(block.split()))


def messages_in(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of exceptions, of logs, of options' help and of fields' descriptions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from _texts(node.exc.args)
        elif isinstance(node, ast.Call):
            yield from _texts(keyword.value for keyword in node.keywords if keyword.arg in {"description", "help"})
            if isinstance(node.func, ast.Attribute) and node.func.attr in {"warning", "error", "info"}:
                yield from _texts(node.args[:1])


def _texts(values: Iterable[ast.expr]) -> Iterator[str]:
    for value in values:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value
        elif isinstance(value, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in value.values)


def _is_sentence(text: str) -> bool:
    return len(re.findall(r"[A-Za-z]{2,}", text)) >= MIN_WORDS


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    for kind, texts in drawn(int(sys.argv[1])).items():
        sys.stdout.write(f"\n{kind}\n\n")
        for text in texts:
            sys.stdout.write(f"- {text}\n")
