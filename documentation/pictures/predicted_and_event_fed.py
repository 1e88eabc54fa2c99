"""Picture of the two sources of the index: the gateway's own decisions, and the KV events of engines."""

from documentation.pictures.drawing import WIDTH, Canvas

COLUMN = 238
LEFT, RIGHT = 16, WIDTH - 16 - COLUMN


def predicted_and_event_fed() -> str:
    canvas = Canvas(
        420,
        "Predicted and event-fed index",
        "With prefix_aware, the gateway records its own routing decisions in the radix tree and predicts evictions. "
        "With kv_aware, each engine publishes KV events that fill the tree, and reported hits check it.",
    )
    for x, name, kind in ((LEFT, "prefix_aware", "approximate"), (RIGHT, "kv_aware", "precise")):
        canvas.text((x + COLUMN / 2, 30), name, anchor="middle", size=18, bold=True, color="ours")
        canvas.text((x + COLUMN / 2, 52), kind, anchor="middle", color="muted")
        canvas.box((x, 132), (COLUMN, 52), ["Radix tree", "of prompt blocks"], fill="soft", edge="ours")
        canvas.box((x, 276), (COLUMN, 36), ["Worker with its KV cache"])
    canvas.line([(WIDTH / 2, 18), (WIDTH / 2, 402)], color="faint")
    canvas.box((LEFT, 66), (COLUMN, 34), ["own routing decision"], edge="ours")
    canvas.arrow([(LEFT + 190, 100), (LEFT + 190, 132)], color="ours", width=2.4)
    canvas.arrow([(LEFT + 60, 184), (LEFT + 60, 276)], color="ours", width=2.4)
    canvas.text((LEFT + 72, 222), "request", color="muted")
    canvas.text((LEFT + 72, 242), "no KV events", color="muted")
    canvas.box((RIGHT, 66), (COLUMN, 34), ["exact tokens of the prompt"], edge="ours")
    canvas.arrow([(RIGHT + 76, 100), (RIGHT + 76, 132)], color="ours", width=2.4)
    canvas.arrow([(RIGHT + 76, 184), (RIGHT + 76, 276)], color="ours", width=2.4)
    canvas.text((RIGHT + 68, 236), "request", anchor="end", color="muted", size=14)
    canvas.arrow([(RIGHT + 112, 276), (RIGHT + 112, 184)], color="ours", width=2.4, dashed=True)
    canvas.text((RIGHT + 122, 222), "KV events:", color="ours", size=14)
    canvas.text((RIGHT + 122, 242), "stored, removed", color="ours", size=14)
    for x, lines in (
        (LEFT, ("Needs nothing from the engine.", "Evicts as the engine's LRU", "would evict.")),
        (RIGHT, ("Needs KV events and the", "model's tokenizer. Compared", "with the hits of engines.")),
    ):
        for number, line in enumerate(lines):
            canvas.text((x, 344 + 21 * number), line, color="muted")
    return canvas.svg()
