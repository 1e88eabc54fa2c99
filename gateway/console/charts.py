"""Line charts that templates write as SVG. They need neither a script nor a style in the page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 600
HEIGHT: Final = 120


@dataclass(frozen=True, slots=True)
class Line:
    label: str
    path: str
    """Commands of an SVG path within `WIDTH` and `HEIGHT`. Missing values leave gaps."""
    latest: str


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    lines: tuple[Line, ...]
    top: str
    """Value at the upper edge, with its unit. The lower edge is 0."""
    begins: str
    ends: str
    description: str
    """Sentence that says what the chart shows, for people who do not see it."""

    @property
    def is_empty(self) -> bool:
        """Whether there are no values to draw."""
        return not any(line.path for line in self.lines)


def chart(
    title: str,
    times: Sequence[str],
    values: Mapping[str, Sequence[float | None]],
    show: Callable[[float | None], str],
) -> Chart:
    """Return a chart of *values* by label. *times* are the texts of the points in time, and *show* adds the unit."""
    top = _top(max((value for series in values.values() for value in series if value is not None), default=0.0))
    lines = tuple(
        Line(label, _path(series, top), show(series[-1] if series else None)) for label, series in values.items()
    )
    parts = [f"{line.label} {line.latest} now, {_range(values[line.label], show)}" for line in lines]
    begins, ends = (times[0], times[-1]) if times else ("", "")
    return Chart(title, lines, show(top), begins, ends, f"{title} from {begins} to {ends} UTC: {'; '.join(parts)}.")


def _range(series: Sequence[float | None], show: Callable[[float | None], str]) -> str:
    known = [value for value in series if value is not None]
    return f"between {show(min(known))} and {show(max(known))}" if known else "no values"


def _top(highest: float) -> float:
    """Return a round number that is not below *highest*."""
    if highest <= 0:
        return 1.0
    power = 10.0 ** len(str(int(highest))) / 10 if highest >= 1 else 1.0
    while power > highest:
        power /= 10
    return next(step * power for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * power >= highest * (1 - 1e-9))


def _path(series: Sequence[float | None], top: float) -> str:
    """Return the commands that draw *series*. A single value between gaps is a short line."""
    step = WIDTH / max(1, len(series) - 1)
    commands, is_drawing = [], False
    for i, value in enumerate(series):
        if value is None:
            is_drawing = False
            continue
        y = HEIGHT - 2 - (HEIGHT - 4) * value / top
        commands.append(f"{'L' if is_drawing else 'M'}{i * step:.1f} {y:.1f}")
        if not is_drawing and (i + 1 == len(series) or series[i + 1] is None):
            commands.append("h1.5")
        is_drawing = True
    return "".join(commands)
