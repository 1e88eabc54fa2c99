"""Picture of a token bucket: reserve tokens before a request, reconcile afterwards, and refill continuously."""

from documentation.pictures.drawing import WIDTH, Canvas

LEFT, RIGHT, FULL, EMPTY = 96, WIDTH - 16, 76, 256


def token_bucket() -> str:
    canvas = Canvas(
        372,
        "A token bucket: reserve and reconcile",
        "The bucket begins full. A request reserves its prompt and its expected answer. When the answer ends, unused "
        "tokens are returned. Meanwhile the bucket refills at the limit per minute divided by 60 per second.",
    )
    canvas.text((16, 30), "Tokens left in the bucket of a limit", size=18, bold=True)
    for y, name in ((FULL, "burst"), (EMPTY, "0")):
        canvas.line([(LEFT, y), (RIGHT, y)], color="faint")
        canvas.text((LEFT - 8, y + 5), name, anchor="end", color="muted")
    canvas.line([(LEFT, FULL), (170, FULL), (170, 196)], color="ours", width=3)
    canvas.line([(170, 196), (350, 166), (350, 112), (RIGHT - 36, FULL), (RIGHT, FULL)], color="ours", width=3)
    canvas.arrow([(182, FULL + 6), (182, 190)], color="alert")
    canvas.text((192, 120), "1  reserve", color="alert", bold=True)
    canvas.text((192, 140), "prompt and", color="muted")
    canvas.text((192, 158), "expected answer", color="muted")
    canvas.text((200, 216), "2  refill at limit / 60 per second", bold=True)
    canvas.arrow([(362, 164), (362, 116)], color="ours")
    canvas.text((372, 146), "3  reconcile", color="ours", bold=True)
    canvas.text((372, 166), "unused tokens", color="muted")
    canvas.text((372, 184), "come back", color="muted")
    canvas.arrow([(LEFT, EMPTY), (RIGHT, EMPTY)], color="peer")
    canvas.text((RIGHT, EMPTY + 22), "time", anchor="end", color="muted")
    for x, words in ((170, "request begins"), (350, "answer ends")):
        canvas.line([(x, EMPTY - 5), (x, EMPTY + 5)], color="peer", width=2)
        canvas.text((x, EMPTY + 22), words, anchor="middle", color="muted")
    canvas.text((16, 316), "A request that does not fit gets status 429 with retry-after.", color="muted")
    canvas.text((16, 338), "An answer longer than reserved is charged when it ends.", color="muted")
    return canvas.svg()
