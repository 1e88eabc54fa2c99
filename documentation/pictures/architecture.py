"""Picture of the architecture: clients, gateways, workers and the fallback."""

from documentation.pictures.drawing import Canvas

DESCRIPTION = (
    "Clients send requests to the gateway. The gateway checks keys and quotas, looks the prompt up in a radix tree of "
    "prefixes, and sends the request to one of three workers. Workers publish KV events. Bedrock is the fallback. "
    "Redis shares quotas and loads between gateways."
)


def architecture() -> str:
    canvas = Canvas(566, "Architecture of Warmgate", DESCRIPTION)
    canvas.box((130, 18), (260, 52), ["Clients", "OpenAI SDK, curl, agents"])
    canvas.arrow([(260, 70), (260, 110)], color="ours", width=2.4)
    canvas.text((272, 94), "request with a key", color="muted")
    _gateway(canvas)
    _workers(canvas)
    _outside(canvas)
    return canvas.svg()


def _gateway(canvas: Canvas) -> None:
    canvas.box((16, 110), (488, 238), edge="ours", fill="ground")
    canvas.text((30, 135), "Warmgate gateway", color="ours", bold=True, size=17)
    canvas.box((30, 148), (460, 52), ["Keys, quotas, fair share", "tokens are reserved before, reconciled after"])
    canvas.arrow([(260, 200), (260, 220)], color="ours", width=2.4)
    canvas.box((30, 220), (280, 114), edge="ours", fill="soft")
    canvas.text((44, 244), "Radix tree of prefixes", bold=True)
    canvas.text((44, 265), "which worker holds which", color="ink")
    canvas.text((44, 284), "start of a prompt")
    _tree(canvas)
    canvas.arrow([(310, 277), (334, 277)], color="ours", width=2.4)
    canvas.box((334, 220), (156, 114), ["Cost per worker", "prefill still to do,", "queue, load,", "evictions"])


def _tree(canvas: Canvas) -> None:
    root, left, right = (258, 296), (226, 322), (290, 322)
    canvas.line([root, left], color="ours", width=2)
    canvas.line([root, right], color="ours", width=2)
    for place in (root, left, right):
        canvas.dot(place, radius=5, color="ours")


def _workers(canvas: Canvas) -> None:
    places = ((16, "Worker 1"), (146, "Worker 2"), (276, "Worker 3"))
    for x, name in places:
        if name == "Worker 2":
            canvas.box((x, 426), (118, 62), [name, "warm cache"], fill="soft", edge="ours")
        else:
            canvas.box((x, 426), (118, 62), [name, "KV cache"])
    canvas.arrow([(225, 348), (225, 426)], color="ours", width=3)
    canvas.line([(52, 348), (52, 426)], color="faint", width=2)
    canvas.line([(320, 348), (320, 426)], color="faint", width=2)
    canvas.text((16, 510), "vLLM, SGLang or Dynamo on GPUs", color="muted")
    canvas.arrow([(180, 426), (180, 348)], dashed=True)
    canvas.text((172, 380), "KV events,", anchor="end", color="muted")
    canvas.text((172, 399), "load, hits", anchor="end", color="muted")
    canvas.text((237, 392), "chosen", color="ours", bold=True)


def _outside(canvas: Canvas) -> None:
    canvas.arrow([(450, 348), (450, 426)], dashed=True)
    canvas.box((406, 426), (98, 62), ["Bedrock", "fallback"], dashed=True)
    canvas.text((440, 380), "when workers", anchor="end", color="muted")
    canvas.text((440, 399), "cannot", anchor="end", color="muted")
    canvas.box((276, 520), (228, 32), ["Redis: shared by gateways"], dashed=True)
    canvas.text((16, 541), "Optional, for several gateways:", color="muted")
