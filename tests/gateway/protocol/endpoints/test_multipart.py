import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocol.endpoints.multipart import FormPart, parts_of, replaced
from gateway.protocol.errors import MalformedBody

TYPE = b"multipart/form-data; boundary=xyz"
MODEL = b'--xyz\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper\r\n'
FILE = (
    b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a b;c.wav"\r\n'
    b"Content-Type: audio/wav\r\n\r\nRIFF\r\n\r\n--xy\x00\xff\r\n"
)
END = b"--xyz--\r\n"


def values(raw: bytes, content_type: bytes = TYPE) -> list[tuple[str, bool, bytes]]:
    return [(part.name, part.is_file, raw[part.start : part.end]) for part in parts_of(raw, content_type)]


class TestParts:
    def test_fields_and_files_are_found_where_they_stand(self) -> None:
        """Bytes that look like half a boundary belong to the file."""
        assert [("model", False, b"whisper"), ("file", True, b"RIFF\r\n\r\n--xy\x00\xff")] == values(MODEL + FILE + END)

    @pytest.mark.parametrize(
        "content_type",
        [
            b'multipart/form-data; boundary="xyz"',
            b"Multipart/Form-Data; Boundary=xyz",
            b" multipart/form-data;boundary=xyz ",
        ],
    )
    def test_the_boundary_may_be_quoted(self, content_type: bytes) -> None:
        """Spaces before it are allowed."""
        assert [("model", False, b"whisper")] == values(MODEL + END, content_type)

    @pytest.mark.parametrize(
        "raw",
        [
            MODEL + b"--xyz--",
            MODEL.replace(b"Content-Disposition", b"content-disposition") + END,
            MODEL.replace(b"\r\n\r\n", b"\r\nContent-Type: text/plain\r\n\r\n") + END,
            MODEL.replace(b"\r\n\r\n", b"\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n") + END,
            MODEL.replace(b"\r\n\r\n", b"\r\nContent-Length: 7\r\n\r\n") + END,
            MODEL.replace(b'"model"', b"model") + END,
        ],
    )
    def test_what_clients_send_is_read(self, raw: bytes) -> None:
        """No line end at the end, other cases, a type or a length of a field, names without quotes."""
        assert [("model", False, b"whisper")] == values(raw)

    def test_a_list_may_have_several_fields(self) -> None:
        """Names that end so are how forms say lists."""
        granularity = MODEL.replace(b'"model"', b'"timestamp_granularities[]"')

        assert ["timestamp_granularities[]"] * 2 == [name for name, _, _ in values(granularity * 2 + END)]

    def test_an_empty_form_has_no_parts(self) -> None:
        """The closing boundary alone."""
        assert [] == values(END)

    @pytest.mark.parametrize(
        ("raw", "content_type", "fault"),
        [
            (MODEL + END, b"multipart/form-data", "must have a boundary"),
            (MODEL + END, b"multipart/form-data; boundary=", "is malformed"),
            (MODEL + END, b"multipart/form-data; boundary=" + b"x" * 71, "must have a boundary"),
            (MODEL + END, b"multipart/form-data; boundary*" + b"1" * 5000 + b"=xyz", "must have a boundary"),
            (b"", TYPE, "must begin with the boundary"),
            (b'{"model":"whisper"}', TYPE, "must begin with the boundary"),
            (MODEL.replace(b"\r\n", b"\n"), TYPE, "other text on its line"),
            (MODEL, TYPE, "ends before its closing boundary"),
            (MODEL + FILE, TYPE, "ends before its closing boundary"),
            (b"--xyz\r\nContent-Disposition: form-data\r\n" + END, TYPE, "no blank line"),
            (b"--xyz\r\nA: " + b"b" * 20_000 + b"\r\n\r\nc\r\n" + END, TYPE, "no blank line"),
            (b"--xyz\r\nContent-Type: text/plain\r\n\r\nwhisper\r\n" + END, TYPE, "no content-disposition with a name"),
            (b"--xyz\r\n\r\nwhisper\r\n" + END, TYPE, "no blank line"),
            (b"--xyz\r\nContent-Disposition: form-data\r\n\r\na\r\n" + END, TYPE, "no content-disposition with a name"),
            (MODEL.replace(b"model", b"a[]") * 1001 + END, TYPE, "more than 1000 parts"),
        ],
    )
    def test_what_is_no_form_is_named(self, raw: bytes, content_type: bytes, fault: str) -> None:
        """The caller learns what is missing, and nothing of the form is quoted."""
        with pytest.raises(MalformedBody, match=fault):
            parts_of(raw, content_type)

    @given(st.binary(max_size=200))
    def test_no_bytes_lead_to_another_error(self, raw: bytes) -> None:
        """Every body either has parts or is malformed."""
        with contextlib.suppress(MalformedBody):
            parts_of(b"--xyz\r\n" + raw, TYPE)


class TestReplacing:
    def test_every_other_byte_stays(self) -> None:
        """Also where several are replaced."""
        raw = MODEL + FILE + MODEL.replace(b'"model"', b'"prompt"') + END
        models = [part for part in parts_of(raw, TYPE) if not part.is_file]

        assert raw.replace(b"whisper", b"base") == replaced(raw, models, b"base")

    def test_nothing_to_replace_changes_nothing(self) -> None:
        """No parts, the same bytes."""
        assert FILE + END == replaced(FILE + END, [], b"x")

    def test_a_part_is_a_place(self) -> None:
        """Not a copy of what may be megabytes."""
        assert [FormPart(name="model", is_file=False, start=55, end=62)] == parts_of(MODEL + END, TYPE)
