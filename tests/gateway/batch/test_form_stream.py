import pytest

from gateway.batch.form_stream import FormStream
from gateway.protocol.errors import MalformedBody

TYPE = b"multipart/form-data; boundary=xyz"
PURPOSE = b'--xyz\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
FILE = (
    b'--xyz\r\ncontent-disposition: form-data; name="file"; filename="a.jsonl"\r\n'
    b"content-type: application/octet-stream\r\n\r\n{}\r\n--xy\r\n{}\n\r\n"
)
END = b"--xyz--\r\n"


def read(body: bytes, step: int = 10**6) -> tuple[FormStream, bytes]:
    form = FormStream(TYPE)
    found = b"".join(form.feed(body[at : at + step]) for at in range(0, len(body), step))
    form.finish()
    return form, found


@pytest.mark.parametrize("step", [1, 2, 3, 7, 10**6])
@pytest.mark.parametrize("body", [PURPOSE + FILE + END, FILE + PURPOSE + END])
def test_a_form_is_read_in_pieces_of_any_size(body: bytes, step: int) -> None:
    """A part of a boundary inside the file belongs to the file, and so do line ends before the boundary."""
    form, found = read(body, step)

    assert b"{}\r\n--xy\r\n{}\n" == found
    assert {"purpose": "batch"} == form.fields
    assert "a.jsonl" == form.filename


def test_an_empty_file_is_a_file() -> None:
    form, found = read(b'--xyz\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n\r\n' + END)

    assert (b"", "a") == (found, form.filename)


def test_file_bytes_do_not_wait_for_the_end_of_the_file() -> None:
    """Only as many bytes wait as could be the begin of a boundary."""
    form = FormStream(TYPE)
    form.feed(b'--xyz\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n')

    assert 1000 - len(b"\r\n--xyz") + 1 == len(form.feed(b"x" * 1000))


def test_text_after_the_closing_boundary_is_ignored() -> None:
    assert b"{}\r\n--xy\r\n{}\n" == read(FILE + END + b"epilogue")[1]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"text" + FILE + END, "must begin with the boundary"),
        (b"text" * 2000, "has more than 4096 bytes"),
        (PURPOSE + PURPOSE + FILE + END, "has the field 'purpose' more than once"),
        (FILE + FILE + END, "has the field 'file' more than once"),
        (FILE.replace(b'"file"', b'"data"') + END, "must be in the field 'file', not in 'data'"),
        (PURPOSE + END, "has no field 'file' with a file"),
        (PURPOSE + FILE, "ends before its closing boundary"),
        (b"--xyz!\r\n" + FILE, "boundary with other text on its line"),
        (PURPOSE.replace(b"batch", b"\xff") + FILE + END, "'purpose' of the multipart body is not UTF-8"),
        (PURPOSE.replace(b"batch", b"x" * 5000) + FILE + END, "'purpose' has more than 4096 bytes"),
        (b"--xyz\r\n" + b"x" * 20_000, "headers of a part have more than 16384 bytes"),
        (b"--xyz\r\ncontent-type: text/plain\r\n\r\nx\r\n" + END, "no content-disposition with a name"),
        (b"".join(PURPOSE.replace(b"purpose", b"p%d" % i) for i in range(33)) + END, "more than 32 fields"),
    ],
)
def test_a_malformed_form_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(MalformedBody, match=message):
        read(body, 1000)


def test_a_form_needs_a_boundary() -> None:
    with pytest.raises(MalformedBody, match="boundary of 1 to 70 characters"):
        FormStream(b"multipart/form-data")
