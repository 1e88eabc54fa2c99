"""`python -m documentation.reference`: write all generated reference pages into docs/reference."""

from pathlib import Path

from documentation.reference.pages import write

write(Path(__file__).resolve().parents[2])
