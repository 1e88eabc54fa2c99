"""Numbers in the units of Grafana's panels, as short texts, and the end of an axis for them."""

import math
from collections.abc import Callable, Mapping, Sequence

_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_TIMES = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
_BYTES = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"))


def shown(value: float, unit: str) -> str:
    """Return *value* as a text with at most three digits, in the Grafana unit *unit*.

    Raises:
        KeyError: if no panel has had this unit before.
    """
    return _TEXTS[unit](value)


def axis_end(highest: float, unit: str) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is not below *highest*; 1 if nothing is above 0.

    The number is plain in the size that `shown` chooses: minutes or mebibytes, for example.
    """
    if highest <= 0:
        return 1.0
    size = next((size for size, _ in _SIZES.get(unit, ()) if highest >= size), 1.0)
    power = 10.0 ** math.floor(math.log10(highest / size))
    return next(size * power * step for step in (1, 2, 5, 10) if size * power * step >= highest * (1 - 1e-9))


def _digits(value: float) -> str:
    if not value:
        return "0"
    text = f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _short(value: float) -> str:
    return _scaled(value, _PREFIXES, "")


def _scaled(value: float, sizes: Sequence[tuple[float, str]], smallest: str) -> str:
    for size, name in sizes:
        if abs(value) >= size:
            return f"{_digits(value / size)} {name}"
    return f"{_digits(value)} {smallest}".strip()


def _seconds(value: float) -> str:
    return _scaled(value, _TIMES, "") if abs(value) >= _TIMES[-1][0] else "0 s"


_SIZES = {"bytes": _BYTES, "s": _TIMES}
_TEXTS: Mapping[str, Callable[[float], str]] = {
    "short": _short,
    "none": _digits,
    "reqps": lambda value: f"{_short(value)}/s",
    "cps": lambda value: f"{_short(value)}/s",
    "percent": lambda value: f"{_digits(value)}%",
    "percentunit": lambda value: f"{_digits(value * 100)}%",
    "s": _seconds,
    "bytes": lambda value: _scaled(value, _BYTES, "B"),
    "currencyUSD": lambda value: f"${_short(value)}",
    "watt": lambda value: f"{_digits(value)} W",
    "celsius": lambda value: f"{_digits(value)} °C",
}
