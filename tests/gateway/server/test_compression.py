import gzip
import sys
from typing import Any

import pytest

from gateway.server.asgi import Message, Receive, Send
from gateway.server.compression import OFF_LOOP_BYTES, Compression, coding_for

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

JSON = (b"content-type", b"application/json")
LARGE = b'{"a":[' + b"0.123," * 10_000 + b"0]}"


async def answered(accepted: bytes | None, *pieces: bytes, headers: Any = (), min_bytes: int = 1000) -> Message:
    """Headers and body of an answer of *pieces*, which has a length if there is one."""

    async def app(_: Message, __: Receive, send: Send) -> None:
        length = [(b"content-length", b"%d" % len(pieces[0]))] if len(pieces) == 1 else []
        await send({"type": "http.response.start", "status": 200, "headers": [*(headers or [JSON]), *length]})
        for number, piece in enumerate(pieces, start=1):
            await send({"type": "http.response.body", "body": piece, "more_body": number < len(pieces)})

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise NotImplementedError

    asked = [] if accepted is None else [(b"accept-encoding", accepted)]
    await Compression(app, min_bytes)({"type": "http", "headers": asked}, receive, send)
    return {"headers": dict(sent[0]["headers"]), "body": b"".join(each["body"] for each in sent[1:])}


@pytest.mark.parametrize("body", [LARGE, LARGE[: OFF_LOOP_BYTES // 2]])
async def test_a_large_answer_is_compressed_as_the_client_takes_it(body: bytes) -> None:
    """With its new length, beside the loop where it is very large; digests of the old bytes do not stay."""
    zipped = await answered(b"gzip, deflate", body, headers=[JSON, (b"etag", b'"1"')])
    zstandard = await answered(b"gzip, zstd;q=0.9", body)

    assert (body, body) == (gzip.decompress(zipped["body"]), zstd.decompress(zstandard["body"]))
    assert {
        b"content-type": b"application/json",
        b"content-encoding": b"gzip",
        b"content-length": b"%d" % len(zipped["body"]),
        b"vary": b"Accept-Encoding",
    } == zipped["headers"]
    assert b"zstd" == zstandard["headers"][b"content-encoding"]
    assert len(zipped["body"]) < len(body) / 10


@pytest.mark.parametrize("accepted", [None, b"", b"br", b"gzip;q=0, zstd; q=0.0"])
async def test_who_does_not_take_it_gets_the_plain_answer(accepted: bytes | None) -> None:
    """A cache learns that there is another one."""
    answer = await answered(accepted, LARGE)

    assert (LARGE, b"Accept-Encoding") == (answer["body"], answer["headers"][b"vary"])
    assert b"content-encoding" not in answer["headers"]


async def test_small_answers_streams_and_binaries_stay_unchanged() -> None:
    """Answers with a coding of their own stay unchanged too."""
    audio = [(b"content-type", b"audio/wav")]
    coded = [JSON, (b"content-encoding", b"br")]

    for answer, body in (
        (await answered(b"gzip", b"a" * 999), b"a" * 999),
        (await answered(b"gzip", LARGE, LARGE), LARGE * 2),
        (await answered(b"gzip", LARGE, headers=audio), LARGE),
        (await answered(b"gzip", LARGE, headers=coded), LARGE),
    ):
        assert (body, False) == (answer["body"], b"vary" in answer["headers"])


async def test_an_answer_that_comes_in_pieces_in_spite_of_its_length_is_passed_on() -> None:
    """Nothing is collected for it."""
    answer = await answered(b"gzip", LARGE, LARGE, headers=[JSON, (b"content-length", b"%d" % (2 * len(LARGE)))])

    assert (2 * LARGE, False) == (answer["body"], b"content-encoding" in answer["headers"])


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [(b"*", b"gzip"), (b"ZSTD", b"zstd"), (b"gzip;q=0.5", b"gzip"), (b"zstd;q=0, *", b"gzip"), (b"identity", None)],
)
def test_a_coding_is_chosen_among_those_that_are_accepted(accepted: bytes, coding: bytes | None) -> None:
    """Any weight except 0 accepts a coding."""
    assert coding == coding_for(accepted)
