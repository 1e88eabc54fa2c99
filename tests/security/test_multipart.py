"""A form is refused unless every parser reads it in the same way: what is authorized is what the worker serves."""

from collections.abc import AsyncIterator

import pytest

from tests.e2e.stack import Stack, stack

PATH = "/v1/audio/transcriptions"
TYPE = "multipart/form-data; boundary=xyz"
HEAD = b"Content-Disposition: form-data; "


def part(head: bytes, value: bytes = b"tiny") -> bytes:
    return b"--xyz\r\n" + head + b"\r\n\r\n" + value + b"\r\n"


MODEL = part(HEAD + b'name="model"')
FILE = part(HEAD + b'name="file"; filename="a.wav"\r\nContent-Type: audio/wav', b"RIFF" + bytes(40))
END = b"--xyz--\r\n"
SECRET = b"secret-model"


@pytest.fixture
async def running() -> AsyncIterator[Stack]:
    async with stack(1) as running:
        yield running


async def answered(running: Stack, body: bytes, content_type: str = TYPE) -> tuple[int, str]:
    response = await running.http.post(PATH, content=body, headers={"content-type": content_type})
    message = "" if response.status_code == 200 else response.json()["error"]["message"]
    return response.status_code, message


async def test_a_plain_form_is_served(running: Stack) -> None:
    assert (200, "") == await answered(running, MODEL + FILE + END)


BODIES = {
    "two models": (MODEL + part(HEAD + b'name="model"', SECRET) + FILE + END, "the field 'model' more than once"),
    "two dispositions": (
        part(HEAD + b'name="model"\r\n' + HEAD + b'name="prompt"') + FILE + END,
        "header content-disposition more than once",
    ),
    "two names": (part(HEAD + b'name="model"; name="prompt"') + FILE + END, "malformed or ambiguous"),
    "two names in two cases": (part(HEAD + b'name="prompt"; NAME="model"') + FILE + END, "malformed or ambiguous"),
    "two filenames": (MODEL + part(HEAD + b'name="a"; filename="a"; filename="b"') + END, "malformed or ambiguous"),
    "a quoted quote": (part(HEAD + b'name="mod\\"el"') + FILE + END, "malformed or ambiguous"),
    "a quoted letter": (part(HEAD + b'name="mo\\del"') + FILE + END, "malformed or ambiguous"),
    "a quote left open": (part(HEAD + b'name="model') + FILE + END, "malformed or ambiguous"),
    "text after the quotes": (part(HEAD + b'name="model"x') + FILE + END, "malformed or ambiguous"),
    "an extended name": (part(HEAD + b"name*=utf-8''model") + FILE + END, "no content-disposition with a name"),
    "an extended filename": (
        MODEL + part(HEAD + b"name=\"file\"; filename*=utf-8''a.wav") + END,
        "only the parameters name and filename",
    ),
    "a name in pieces": (part(HEAD + b'name*0="mo"; name*1="del"') + FILE + END, "no content-disposition with a name"),
    "spaces in the name": (part(HEAD + b'name=" model"') + FILE + END, "is not allowed"),
    "the field of the character set": (part(HEAD + b'name="_charset_"') + MODEL + END, "is not allowed"),
    "a folded header": (part(b'Content-Disposition: form-data;\r\n name="model"') + FILE + END, "malformed or folded"),
    "a space before the colon": (part(b'Content-Disposition : form-data; name="model"') + END, "malformed or folded"),
    "a bare line feed in the head": (part(HEAD + b'name="a"\n' + HEAD + b'name="model"') + END, "malformed or folded"),
    "an attachment": (part(b'Content-Disposition: attachment; name="model"') + FILE + END, "malformed or ambiguous"),
    "a transfer encoding": (
        part(HEAD + b'name="model"\r\nContent-Transfer-Encoding: base64', b"dGlueQ==") + FILE + END,
        "only the headers content-disposition",
    ),
    "another character set": (
        part(HEAD + b'name="model"\r\nContent-Type: text/plain; charset=utf-16') + FILE + END,
        "must be text/plain in UTF-8",
    ),
    "a wrong length": (part(HEAD + b'name="model"\r\nContent-Length: 2') + FILE + END, "content-length of the field"),
    "text before": (b"preamble\r\n" + MODEL + FILE + END, "must begin with the boundary"),
    "a line end before": (b"\r\n" + MODEL + FILE + END, "must begin with the boundary"),
    "text after": (MODEL + FILE + END + b"epilogue", "continues after its closing boundary"),
    "a form after the end": (MODEL + FILE + END + MODEL + END, "continues after its closing boundary"),
    "no end": (MODEL + FILE, "ends before its closing boundary"),
    "half an end": (MODEL + FILE + b"--xyz-\r\n", "other text on its line"),
    "spaces after the boundary": (MODEL.replace(b"xyz\r\n", b"xyz \r\n") + FILE + END, "other text on its line"),
    "a longer boundary": (MODEL + b"--xyzz\r\n" + FILE + END, "other text on its line"),
    "a boundary after LF": (
        part(HEAD + b'name="file"; filename="a"', b"a\n" + part(HEAD + b'name="model"', SECRET)) + MODEL + END,
        "after LF without CR",
    ),
}


@pytest.mark.parametrize("name", BODIES)
async def test_an_ambiguous_form_is_refused(running: Stack, name: str) -> None:
    """With 400 that says what is ambiguous; no worker sees it."""
    body, fault = BODIES[name]
    status, message = await answered(running, body)

    assert (400, fault) == (status, fault if fault in message else message)
    assert [] == await running.served(running.workers[0])


@pytest.mark.parametrize(
    ("content_type", "fault"),
    [
        ("multipart/form-data; boundary=abc; boundary=xyz", "is malformed"),
        ("multipart/form-data; boundary=xyz; BOUNDARY=abc", "is malformed"),
        ("multipart/form-data; boundary=xyz; charset=utf-16", "no parameters except boundary"),
        ("multipart/form-data; boundary*=utf-8''xyz", "must have a boundary"),
        ('multipart/form-data; boundary="x\\yz"', "is malformed"),
        ('multipart/form-data; boundary="xyz', "is malformed"),
        ("multipart/form-data; boundary=xyz, multipart/form-data; boundary=abc", "is malformed"),
        ('multipart/form-data; boundary="xyz "', "must have a boundary"),
    ],
)
async def test_an_ambiguous_boundary_is_refused(running: Stack, content_type: str, fault: str) -> None:
    """There is one boundary, spelled in one way, and nothing else that parsers go by."""
    status, message = await answered(running, MODEL + FILE + END, content_type)

    assert (400, fault) == (status, fault if fault in message else message)
