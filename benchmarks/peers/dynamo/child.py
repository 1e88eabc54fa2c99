"""Child process of a trial: its command-line options, and the last line of its output.

Standard library only, because the environments of peers import it as well.
"""

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def options_of(doc: str, *more: str) -> argparse.Namespace:
    """Return the options for the caches, as numbers, and *more* options as text."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    for name in ("seed", "workers", "systems", "blocks"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in more:
        parser.add_argument(f"--{name}", required=True)
    return parser.parse_args()


def tell(found: "DataclassInstance") -> None:
    """Print the result as one line of JSON."""
    print(json.dumps(asdict(found)))
