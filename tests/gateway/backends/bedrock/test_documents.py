import base64
from typing import Any

import pytest

from gateway.backends.bedrock.documents import Documents
from gateway.protocol.errors import InvalidField


def block(
    filename: object,
    data: bytes = b"hello",
    *,
    mime: str = "application/octet-stream",
    documents: Documents | None = None,
) -> dict[str, Any]:
    file = {"filename": filename, "file_data": f"data:{mime};base64,{base64.b64encode(data).decode()}"}
    made: dict[str, Any] = (documents or Documents()).block(file, "x")["document"]
    return made


def test_a_file_is_a_document() -> None:
    assert {"format": "csv", "name": "Sales 2026", "source": {"bytes": "aGVsbG8="}} == block("Sales_2026.csv")


def test_bare_base64_is_a_document_too() -> None:
    made = Documents().block({"filename": "a.txt", "file_data": "aGVsbG8="}, "x")

    assert {"document": {"format": "txt", "name": "a", "source": {"bytes": "aGVsbG8="}}} == made


@pytest.mark.parametrize(
    ("filename", "data", "mime", "kind"),
    [
        ("a.docx", b"x", "application/octet-stream", "docx"),
        ("a.HTM", b"x", "application/octet-stream", "html"),
        ("a.markdown", b"x", "application/octet-stream", "md"),
        ("a.txt", b"%PDF-1.7", "text/plain", "pdf"),
        (None, b"x", "application/pdf", "pdf"),
        (None, b"x", "text/csv", "csv"),
        ("notes", b"x", "text/plain", "txt"),
        ("a.py", b"x", "text/x-python", "txt"),
        ("a.json", b"{}", "application/json", "txt"),
    ],
)
def test_the_format_is_reported_by_bytes_name_or_type(filename: str | None, data: bytes, mime: str, kind: str) -> None:
    assert kind == block(filename, data, mime=mime)["format"]


@pytest.mark.parametrize(
    ("filename", "name"),
    [
        ("a_b.txt", "a b"),
        ("  [draft]  (2) - größe.txt", "[draft] (2) - gr e"),
        ("dir/a.txt", "a"),
        ("日本.txt", "document"),
        ("x" * 300 + ".txt", "x" * 200),
        (7, "document"),
    ],
)
def test_a_name_has_only_what_bedrock_allows(filename: object, name: str) -> None:
    assert name == block(filename, mime="text/plain")["name"]


def test_no_two_documents_of_a_request_have_the_same_name() -> None:
    documents = Documents()

    names = [block(name, documents=documents)["name"] for name in ("a.txt", "a.md", "a_.csv", "x" * 250 + ".txt")]
    names.append(block("x" * 250 + ".md", documents=documents)["name"])

    assert ["a", "a 2", "a 3", "x" * 200, "x" * 198 + " 2"] == names


@pytest.mark.parametrize(
    ("file", "why"),
    [
        ({"file_id": "file-1"}, "must include the content"),
        ({"filename": "a.zip", "file_data": "data:application/zip;base64,aGVsbG8="}, "must be one of pdf, csv"),
        ({"filename": "a.pdf", "file_data": "https://example.com/a.pdf"}, "does not fetch"),
        ({"filename": "a.pdf", "file_data": base64.b64encode(bytes(4_500_001)).decode()}, r"4\.5 MB"),
    ],
)
def test_a_file_that_bedrock_does_not_take_is_refused(file: dict[str, str], why: str) -> None:
    with pytest.raises(InvalidField, match=why) as caught:
        Documents().block(file, "messages[0].content[0].file")

    assert "messages[0].content[0].file" == caught.value.param
