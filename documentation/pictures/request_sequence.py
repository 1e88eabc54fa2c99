"""Picture of one request that is retried before its first byte and continued on another worker after it."""

from documentation.pictures.drawing import Canvas, Color, Point

CLIENT, GATEWAY, FIRST, SECOND, THIRD = 58, 184, 304, 389, 474
"""Horizontal positions of the lifelines."""
NAMES = ((CLIENT, "Client"), (GATEWAY, "Gateway"), (FIRST, "Worker 1"), (SECOND, "Worker 2"), (THIRD, "Worker 3"))
BOTTOM = 566


def request_sequence() -> str:
    canvas = Canvas(
        BOTTOM + 22,
        "A request with a retry and a continuation",
        "The gateway reserves tokens. Worker 1 refuses, so the gateway tries worker 2. Worker 2 fails in the middle of "
        "the stream, and worker 3 continues it. The client sees one answer. The gateway reconciles actual usage.",
    )
    for x, name in NAMES:
        canvas.line([(x, 54), (x, 520)], color="faint", width=2)
        canvas.box((x - 40 - 6 * (x < FIRST), 18), (80 + 12 * (x < FIRST), 36), [name])
    _before_the_first_byte(canvas)
    _after_the_first_byte(canvas)
    return canvas.svg()


def _before_the_first_byte(canvas: Canvas) -> None:
    _message(canvas, 84, (CLIENT, GATEWAY), "request", "ours")
    _note(canvas, 94, "reserve tokens,", "rank workers")
    _message(canvas, 166, (GATEWAY, FIRST), "prompt", "ours")
    _message(canvas, 194, (FIRST, GATEWAY), "refused", "alert")
    _text(canvas, (406, 198), "retry on the next worker", "alert")
    _message(canvas, 228, (GATEWAY, SECOND), "prompt", "ours")
    _message(canvas, 258, (SECOND, GATEWAY), "tokens 1 to 40", "peer")
    _message(canvas, 272, (GATEWAY, CLIENT), "stream", "ours")


def _after_the_first_byte(canvas: Canvas) -> None:
    canvas.line([(SECOND - 8, 304), (SECOND + 8, 320)], color="alert", width=3)
    canvas.line([(SECOND - 8, 320), (SECOND + 8, 304)], color="alert", width=3)
    canvas.text((SECOND - 16, 317), "worker fails", anchor="end", color="alert")
    _message(canvas, 358, (GATEWAY, THIRD), "prompt and tokens 1 to 40", "ours")
    _message(canvas, 396, (THIRD, GATEWAY), "tokens 41 to 90", "peer")
    _message(canvas, 410, (GATEWAY, CLIENT), "stream", "ours")
    _message(canvas, 446, (GATEWAY, CLIENT), "end", "ours")
    _note(canvas, 466, "reconcile usage,", "learn rates, log")
    canvas.text((16, 540), "The client gets one answer: one id, no repeated and", color="muted")
    canvas.text((16, 560), "no missing character, correct usage.", color="muted")


def _message(canvas: Canvas, y: float, ends: tuple[float, float], words: str, color: Color) -> None:
    start, end = ends
    ahead = 4 if end > start else -4
    canvas.arrow([(start + ahead, y), (end - ahead, y)], color=color, width=2.2)
    left = min(start, end)
    right = max(start, end)
    middle = (left + right) / 2 if right - left < 140 else left + 112
    _text(canvas, (middle, y - 7), words, "ink" if color == "peer" else color)


def _text(canvas: Canvas, place: Point, words: str, color: Color) -> None:
    """Write *words* in front of the lifelines, which they interrupt."""
    width = len(words) * 7.6
    canvas.bar((place[0] - width / 2, place[1] - 13), (width, 16), color="ground")
    canvas.text(place, words, anchor="middle", color=color)


def _note(canvas: Canvas, y: float, first: str, second: str) -> None:
    canvas.box((GATEWAY - 70, y), (140, 46), fill="soft", edge="ours")
    canvas.text((GATEWAY, y + 20), first, anchor="middle")
    canvas.text((GATEWAY, y + 38), second, anchor="middle")
