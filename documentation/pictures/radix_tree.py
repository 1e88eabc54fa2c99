"""Picture of the radix tree of prefixes over three workers, and of the hits of one request."""

from documentation.pictures.drawing import Canvas, Point


def radix_tree() -> str:
    canvas = Canvas(
        470,
        "A radix tree of prompts over three workers",
        "Each node is a part of a prompt and names the workers that hold it. The new request matches two parts on "
        "worker 2, and one part on the others.",
    )
    canvas.text((16, 28), "Which worker holds which part of which prompt", size=18, bold=True)
    root, left, middle, right = (170, 50), (12, 166), (180, 166), (348, 166)
    width = 160
    for child in (left, middle, right):
        canvas.line([(260, 102), (child[0] + width / 2, 166)], width=1.8)
    canvas.line([(260, 102), (260, 166)], color="ours", width=4)
    canvas.line([(92, 218), (92, 256)], width=1.8)
    _node(canvas, root, 180, "system prompt", "workers 1, 2, 3", is_match=True)
    _node(canvas, left, width, "chat of Ana", "worker 1")
    _node(canvas, middle, width, "chat of Ben", "worker 2", is_match=True)
    _node(canvas, right, width, "source code", "worker 3")
    _node(canvas, (12, 256), width, "Ana's next turn", "worker 1")
    canvas.line([(260, 218), (260, 256)], color="ours", width=2, dashed=True)
    canvas.box((180, 256), (width, 52), ["Ben's next turn", "new: to compute"], edge="ours", fill="ground", dashed=True)
    _hits(canvas)
    return canvas.svg()


def _hits(canvas: Canvas) -> None:
    canvas.text((16, 346), "A new request of Ben: the part that is already cached", bold=True)
    for number, (worker, cached) in enumerate((("worker 1", 0.4), ("worker 2", 0.8), ("worker 3", 0.4))):
        y = 362 + 34 * number
        is_best = cached > 0.5
        canvas.text((16, y + 17), worker, color="ours" if is_best else "muted", bold=is_best)
        canvas.bar((100, y), (320, 24), color="faint")
        canvas.bar((100, y), (320 * cached, 24), color="ours" if is_best else "peer")
        canvas.text((428, y + 17), f"{cached:.0%}", color="ours" if is_best else "muted", bold=is_best)


def _node(canvas: Canvas, corner: Point, width: float, name: str, workers: str, *, is_match: bool = False) -> None:
    if is_match:
        canvas.box(corner, (width, 52), [name, workers], fill="soft", edge="ours")
    else:
        canvas.box(corner, (width, 52), [name, workers])
