import httpx

from benchmarks.live import Replay, Turn

STREAM = """data: {"choices":[{"index":0,"delta":{"content":"t"}}]}

data: {"choices":[],"usage":{"prompt_tokens":20,"prompt_tokens_details":{"cached_tokens":16}}}

data: [DONE]

"""


async def test_every_turn_of_a_conversation_names_the_same_session() -> None:
    sessions: dict[str, set[str]] = {}

    def gateway(request: httpx.Request) -> httpx.Response:
        (name,) = (name for name in ("first", "second") if name in request.content.decode())
        sessions.setdefault(name, set()).add(request.headers["x-session-id"])
        return httpx.Response(200, text=STREAM, headers={"x-warmgate-worker": "w1"})

    talks = [[Turn([{"role": "user", "content": name}], 8)] * 3 for name in ("first", "second")]
    async with httpx.AsyncClient(transport=httpx.MockTransport(gateway)) as client:
        replay = Replay("http://gateway", client, [])
        await replay.run(talks, in_flight=2)

    assert {"first": {"conversation-0"}, "second": {"conversation-1"}} == sessions
    assert [16] * 6 == [answer.cached_tokens for answer in replay.answers]
