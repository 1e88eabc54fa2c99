"""Picture of the shutdown of a pod, as a timeline with the default values of the Helm chart."""

from documentation.pictures.drawing import WIDTH, Anchor, Canvas, Color

PRE_STOP_S, STOP_DELAY_S, SHUTDOWN_GRACE_S, SLACK_S = 5, 15, 120, 10
"""Default values of the Helm chart, in seconds. Tests compare these constants with the chart."""
EDGES = (16.0, 116.0, 236.0, 420.0, WIDTH - 16.0)
"""Horizontal positions of the ends of the four phases. The widths are not to scale."""


def pod_shutdown() -> str:
    canvas = Canvas(
        330,
        "How a pod stops",
        "First preStop sleeps, then SIGTERM arrives. For stop_delay_s the gateway still accepts requests while readyz "
        "answers 503. For shutdown_grace_s running requests end. Kubernetes kills the pod only after that.",
    )
    canvas.text((16, 30), "How a pod stops", size=18, bold=True)
    canvas.text((WIDTH - 16, 30), "widths not to scale", anchor="end", color="muted", size=14)
    durations = (PRE_STOP_S, STOP_DELAY_S, SHUTDOWN_GRACE_S, SLACK_S)
    names = ("preStop", "stop_delay_s", "shutdown_grace_s", "slack")
    at = 0
    for number, (name, duration) in enumerate(zip(names, durations, strict=True)):
        left, right = EDGES[number], EDGES[number + 1]
        canvas.box((left, 76), (right - left, 52), [name, f"{duration} s"], fill="soft" if number < 3 else "panel")
        _edge(canvas, left, at)
        at += duration
    _edge(canvas, EDGES[-1], at)
    canvas.arrow([(EDGES[1], 58), (EDGES[1], 75)], color="alert")
    canvas.text((EDGES[1], 54), "SIGTERM", anchor="middle", color="alert", bold=True)
    canvas.arrow([(EDGES[4], 58), (EDGES[4], 75)], color="alert")
    canvas.text((EDGES[4], 54), "SIGKILL", anchor="end", color="alert", bold=True)
    _span(canvas, 184, (0, 1), "ready", "peer")
    _span(canvas, 184, (1, 3), "/readyz answers 503", "alert")
    _span(canvas, 232, (0, 2), "new requests are served", "ours")
    _span(canvas, 280, (0, 3), "running requests go on to their end", "ours")
    return canvas.svg()


def _edge(canvas: Canvas, x: float, second: int) -> None:
    anchor: Anchor = "start" if x == EDGES[0] else "end" if x == EDGES[-1] else "middle"
    canvas.text((x, 148), f"{second} s", anchor=anchor, color="muted", size=14)


def _span(canvas: Canvas, y: float, phases: tuple[int, int], words: str, color: Color) -> None:
    first, last = phases
    left, right = EDGES[first], EDGES[last]
    canvas.bar((left, y + 8), (right - left - 2, 7), color=color)
    canvas.text((left if first == 0 else left + 4, y), words, color="muted" if color == "peer" else color)
