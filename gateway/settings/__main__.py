"""Update the table of settings in a Markdown page: `python -m gateway.settings docs/reference/settings.md`."""

import sys
from pathlib import Path

from gateway.settings.table import with_table


def main(arguments: list[str]) -> None:
    for page in map(Path, arguments):
        page.write_text(with_table(page.read_text(encoding="utf-8")), encoding="utf-8")


main(sys.argv[1:])
