"""Check the language of code, docs and messages: `python -m tests.language [PATH...]` prints what it finds.

Two checks. The word list runs over docstrings, comments, string literals and names in Python, and over the text of
every other file. Docstrings must not start with a preposition or a conjunction, which only makes sense after the name
of what they describe. `EXCEPTIONS` lists the lines that are right in spite of a check, each with its reason.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

WORDS = {
    r"told|tells|tell of": "returns, reports, publishes, records, logs, knows",
    r"whoever|whomever": "the caller, or another noun",
    r"nobody": "cannot, no one, no worker",
    r"anew": "again",
    r"be it": "whether",
    r"as ever": "as always, or leave it out",
    r"comes? true": "match",
    r"(?:what|whatever) (?:became|becomes) of": "the outcome of",
    r"(?:is|are|was|were) (?-i:none)": "is not one",
    r"leave for": "permission for",
    r"from of": "from",
    r"besides? that": "also",
    r"of which [^.;:()]{1,60} of it": "one of the two",
    r"(?:behavi|col|hon|fav|neighb)ours?": "American spelling: -or",
    r"(?:re-?|de)?(?:seriali|normali|recogni|organi|optimi|initiali|authori|utili)s(?:e[sd]?|ing|ations?)": "-ize",
    r"learnt|whilst|artefacts?|catalogues?|centre|grey": "American spelling",
}
"""What is not written, and what is written instead."""
_PATTERNS = {
    re.compile(rf"(?<![A-Za-z0-9])(?:{pattern})(?![A-Za-z0-9])", re.IGNORECASE): use for pattern, use in WORDS.items()
}
_ANY = re.compile("|".join(f"(?:{pattern})" for pattern in WORDS), re.IGNORECASE)
"""Matches wherever one of the patterns may; most texts have none of them."""

DANGLING = frozenset(
    {
        "of",
        "that",
        "as",
        "so",
        "what",
        "whatever",
        "who",
        "whom",
        "whose",
        "which",
        "whichever",
        "than",
        "and",
        "or",
        "but",
        "nor",
        "because",
        "till",
        "by",
        "into",
        "like",
        "how",
        "why",
    }
)
"""First words that a docstring never has."""
BEFORE_A_SENTENCE = frozenset(
    {
        "if",
        "when",
        "where",
        "while",
        "until",
        "since",
        "before",
        "after",
        "at",
        "with",
        "without",
        "for",
        "from",
        "in",
        "on",
        "to",
        "under",
        "beside",
        "behind",
        "between",
        "among",
        "over",
        "per",
        "against",
        "besides",
        "apart",
    }
)
"""First words that begin a sentence in a test, where a docstring states a fact, and nowhere else."""

SKIPPED = (
    "benchmarks/results/",
    "CHANGELOG.md",
    "tests/language.py",
    "tests/test_language.py",
    "deploy/constraints.txt",
)
TEXTS = (".md", ".yaml", ".yml", ".toml", ".tpl", ".json", ".txt")
UNREAD = ("tests/deploy/expositions/", "benchmarks/traces/", "tests/sdk/package", "tests/fuzz/", "docs/pictures/")
"""Data of others."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """A line that is right in spite of a check."""

    path: str
    text: str
    """Part of the line."""
    reason: str


_STORED = "a label of the stored results; it changes when they are recorded again"
EXCEPTIONS: tuple[Allowed, ...] = (
    Allowed("benchmarks/decision.py", "new: nobody has any of it", _STORED),
    Allowed("benchmarks/drill.py", "its gateway is told to end; all come back", _STORED),
    Allowed("benchmarks/drill.py", "begins anew on its append-only file", _STORED),
    Allowed("benchmarks/drill.py", "one gateway after the other is told to end, and begins anew", _STORED),
    Allowed("benchmarks/event_index.py", '"--told"', "an option in the commands of the stored results"),
    Allowed("benchmarks/event_index.py", "arguments.told", "an option in the commands of the stored results"),
    Allowed("benchmarks/event_index.py", "matches that are not what the engines told", _STORED),
    Allowed("benchmarks/event_index.py", "What engines told: ", _STORED),
    Allowed("benchmarks/event_index.py", 'report.figures["told"]', _STORED),
    Allowed("benchmarks/event_index.py", "told in runs, ns", _STORED),
    Allowed("benchmarks/event_index.py", "told one by one, ns per block", _STORED),
    Allowed("benchmarks/event_index.py", "272 blocks that nobody has, µs", _STORED),
    Allowed("benchmarks/event_index.py", '"Told: ours decodes', _STORED),
    Allowed("benchmarks/headlines.py", "told in runs, ns of processor time per block", _STORED),
    Allowed("benchmarks/hostile.py", '("nobody", alone.p50', _STORED),
    Allowed("benchmarks/peers/scenarios/hot_prefix.py", "where nobody has to spread anything", _STORED),
    Allowed("benchmarks/peers/scenarios/memory.py", "Whoever answers more has seen more", _STORED),
    Allowed("benchmarks/scenarios/hundred_thousand.py", "is told by the highest rate", _STORED),
    Allowed("benchmarks/stalls.py", "no engine has told of", _STORED),
    Allowed("benchmarks/stalls.py", "so nobody asks for exact tokens", _STORED),
    Allowed(
        "tests/benchmarks/test_event_index.py", "arguments.told", "an option in the commands of the stored results"
    ),
    Allowed("deploy/README.md", "its gateway is told to end; all come back", _STORED),
    Allowed("deploy/README.md", "begins anew on its append-only file", _STORED),
    Allowed("deploy/README.md", "one gateway after the other is told to end, and begins anew", _STORED),
)


@dataclass(frozen=True, slots=True)
class Finding:
    path: str
    line: int
    found: str
    use: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.found!r}: {self.use}"


def findings(root: Path, paths: Iterable[str]) -> Iterator[Finding]:
    """Check the files at *paths*, which are relative to *root*."""
    for path in paths:
        text = (root / path).read_text(encoding="utf-8")
        lines = text.split("\n")
        found = in_python(path, text) if path.endswith(".py") else words_in(path, 1, text)
        yield from (finding for finding in found if not _is_allowed(path, lines[finding.line - 1]))


def in_python(path: str, text: str) -> Iterator[Finding]:
    """Check the comments, names, docstrings and, outside of tests, strings of one module."""
    in_test = path.startswith("tests/")
    tokens = tokenize.generate_tokens(io.StringIO(text).readline) if _may_have(text) else ()
    for token in tokens:
        # In tests a string is data: a prompt, a name, a message that the product's own check has covered.
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and not in_test):
            yield from words_in(path, token.start[0], token.string)
        elif token.type == tokenize.NAME:
            yield from words_in(path, token.start[0], token.string.replace("_", " "))
    for line, docstring in docstrings(ast.parse(text)):
        if in_test:
            yield from words_in(path, line, docstring)
        first = re.match(r"\W*([A-Za-z]+)", docstring)
        if first is not None and _dangles(first.group(1), docstring, in_test=in_test):
            yield Finding(path, line, docstring.strip().split("\n")[0][:60], "start with a noun or an imperative verb")


def words_in(path: str, line: int, text: str) -> Iterator[Finding]:
    """Run the word list over *text*, which begins at *line*."""
    if not _may_have(text):
        return
    for pattern, use in _PATTERNS.items():
        for match in pattern.finditer(text):
            yield Finding(path, line + text.count("\n", 0, match.start()), match.group(0), use)


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Return the docstrings in *tree* with their lines: of modules, classes, functions, attributes and constants."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", None) or () if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                value = statement.value.value
                if isinstance(value, str):
                    yield statement.lineno, value


def written(root: Path = ROOT, under: Sequence[str] = ()) -> list[str]:
    """Return the paths of the files to check: those that are tracked, below one of *under* where that is not empty."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        check=True,
        text=True,
    )
    paths = [path for path in listed.stdout.split("\0") if path and (root / path).is_file()]
    return [
        path
        for path in paths
        if path.endswith((".py", *TEXTS))
        and not path.startswith((*SKIPPED, *UNREAD))
        and (not under or path.startswith(tuple(under)))
    ]


def _may_have(text: str) -> bool:
    """Return whether a word of the list may stand in *text*: a quick look, so that few files are taken apart."""
    return _ANY.search(text.replace("_", " ")) is not None


def _dangles(word: str, docstring: str, *, in_test: bool) -> bool:
    word = word.lower()
    if in_test and word in {"what", "whatever"} and len(docstring.split()) >= 8:
        return False
    return word in DANGLING or (word in BEFORE_A_SENTENCE and not in_test)


def _is_allowed(path: str, line: str) -> bool:
    return any(path == allowed.path and allowed.text in line for allowed in EXCEPTIONS)


def main(under: Sequence[str]) -> int:
    """Print the findings below the paths *under*, and how many each folder has. Return 1 if there are any."""
    found = list(findings(ROOT, written(under=under)))
    for finding in found:
        sys.stdout.write(f"{finding}\n")
    for folder, count in Counter("/".join(finding.path.split("/")[:2]) for finding in found).most_common():
        sys.stdout.write(f"{count:6} {folder}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
