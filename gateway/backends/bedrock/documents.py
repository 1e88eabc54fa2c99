"""Conversion of the client's files to Converse document blocks, which need a format and a unique name."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from gateway.backends.bedrock.data_url import Attachment, read_attachment
from gateway.protocol.errors import InvalidField

# Amazon Bedrock's user guide, "Converse": at most 5 documents in a message, 4.5 MB each; in a name only letters,
# digits, single spaces, hyphens, round and square brackets.
DOCUMENTS_PER_TURN = 5
_MOST_BYTES = 4_500_000
_LONGEST_NAME = 200
_STRANGE = re.compile(r"[^a-zA-Z0-9()\[\]-]+")

_FORMATS = ("pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md")
_FORMAT_OF_MIME = {
    "application/pdf": "pdf",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/csv": "csv",
    "text/html": "html",
    "text/markdown": "md",
    "text/plain": "txt",
}
# Text by another name, which a model reads as text.
_TEXT_MIMES = ("text/", "application/json", "application/xml", "application/yaml", "application/javascript")


class Documents:
    """Converter from the files of one request to document blocks with unique names."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def block(self, file: Mapping[str, Any], where: str) -> dict[str, Any]:
        """Return the document block for *file*, the ``file`` object of a content part. *where* is the name of its
        request field. O(file).

        Raises:
            InvalidField: if *file* gives only a ``file_id``, or its format or size is not accepted by Bedrock.
        """
        data = file.get("file_data")
        if not isinstance(data, str):
            raise InvalidField(
                f"'{where}' must include the content in 'file_data', because the Bedrock fallback stores no files",
                param=where,
            )
        name = file.get("filename")
        path = PurePosixPath(name if isinstance(name, str) else "")
        attachment = read_attachment(data, where, allows_bare=True)
        kind = _format(path, attachment)
        if kind is None:
            raise InvalidField(f"'{where}' must be one of {', '.join(_FORMATS)} for the Bedrock fallback", param=where)
        if len(attachment.data) > _MOST_BYTES:
            raise InvalidField(f"'{where}' exceeds Bedrock's limit of 4.5 MB for a document", param=where)
        return {"document": {"format": kind, "name": self._name(path.stem), "source": {"bytes": attachment.base64}}}

    def _name(self, wanted: str) -> str:
        plain = _STRANGE.sub(" ", wanted).strip()[:_LONGEST_NAME].strip() or "document"
        name, number = plain, 1
        while name in self._names:
            number += 1
            tail = f" {number}"
            name = plain[: _LONGEST_NAME - len(tail)].rstrip() + tail
        self._names.add(name)
        return name


def _format(path: PurePosixPath, attachment: Attachment) -> str | None:
    """Return the format of a document by its content, its file extension or its media type, in this order, or None if
    unknown.
    """
    if attachment.data.startswith(b"%PDF-"):
        return "pdf"
    extension = path.suffix[1:].lower()
    extension = {"htm": "html", "markdown": "md", "text": "txt"}.get(extension, extension)
    if extension in _FORMATS:
        return extension
    if attachment.mime in _FORMAT_OF_MIME:
        return _FORMAT_OF_MIME[attachment.mime]
    return "txt" if attachment.mime.startswith(_TEXT_MIMES) else None
