"""Chart of horizontal bars with numbers. Bars of Warmgate have a strong color, all others are gray."""

from collections.abc import Sequence
from dataclasses import dataclass

from documentation.pictures.drawing import Canvas

LEFT, RIGHT, FIRST, ROW = 178, 432, 62, 31


@dataclass(frozen=True, slots=True)
class Row:
    label: str
    value: float
    is_ours: bool = False


@dataclass(frozen=True, slots=True)
class BarChart:
    """Bar chart whose bars begin at 0."""

    title: str
    description: str
    measure: str
    """Name of the measured value, with its unit."""
    rows: Sequence[Row]
    notes: Sequence[str]

    def svg(self) -> str:
        bottom = FIRST + ROW * len(self.rows)
        canvas = Canvas(bottom + 20 + 19 * len(self.notes), self.title, self.description)
        canvas.text((16, 28), self.title, size=18, bold=True)
        canvas.text((16, 50), self.measure, color="muted")
        highest = max(row.value for row in self.rows)
        for number, row in enumerate(self.rows):
            y = FIRST + ROW * number
            length = max((RIGHT - LEFT) * row.value / highest, 1)
            canvas.text(
                (LEFT - 8, y + 18),
                row.label,
                anchor="end",
                size=14,
                bold=row.is_ours,
                color="ours" if row.is_ours else "ink",
            )
            canvas.bar((LEFT, y + 3), (length, ROW - 9), color="ours" if row.is_ours else "peer")
            canvas.text((LEFT + length + 7, y + 18), f"{row.value:,.3g}" if row.value < 1000 else f"{row.value:,.0f}")
        for number, note in enumerate(self.notes):
            canvas.text((16, bottom + 26 + 19 * number), note, color="muted", size=13)
        return canvas.svg()
