"""Incremental parser of a multipart form with one file, which keeps only a boundary and small fields in memory.

The proxy forwards forms as the bytes that arrived, and so refuses forms that two parsers could read differently. Only
this parser reads an uploaded file.
"""

from gateway.protocol.endpoints.multipart import boundary_of, part_head
from gateway.protocol.errors import MalformedBody

MAX_HEAD_BYTES = 16 * 1024
"""Maximum bytes of the headers of one part."""
MAX_FIELD_BYTES = 4 * 1024
"""Maximum bytes of the value of one field that is not a file."""
MAX_FIELDS = 32
"""Maximum number of fields in a form."""


class FormStream:
    """Parser of one form. `feed` returns the bytes of the file that have become known."""

    def __init__(self, content_type: bytes) -> None:
        """Begin a form with the boundary in *content_type*.

        Raises:
            MalformedBody: if *content_type* names no boundary.
        """
        self._line = b"\r\n--" + boundary_of(content_type)
        self._rest = b"\r\n"  # so that the first boundary looks like all others
        self._state = "before"
        self._name = ""
        self.fields: dict[str, str] = {}
        """Values of all fields that are not files, by name."""
        self.filename: str | None = None
        """Name of the file, or None if no file has begun yet."""

    @property
    def is_complete(self) -> bool:
        """Whether the closing boundary has been read."""
        return self._state == "end"

    def feed(self, data: bytes) -> bytes:
        """Read *data*, which follows what was read before, and return the next bytes of the file.

        Raises:
            MalformedBody: if the form is malformed, or has a second file or too large fields.
        """
        self._rest += data
        found: list[bytes] = []
        while self._step(found):
            pass
        return b"".join(found)

    def finish(self) -> None:
        """Raise MalformedBody unless the form is complete and has a file."""
        if not self.is_complete:
            raise MalformedBody("The multipart body ends before its closing boundary")
        if self.filename is None:
            raise MalformedBody("The multipart body has no field 'file' with a file")

    def _step(self, found: list[bytes]) -> bool:
        """Read the next element of the form if it is complete. Return whether another element may follow."""
        if self._state == "boundary":
            return self._read_boundary_end()
        if self._state == "head":
            return self._read_head()
        if self._state == "end":
            self._rest = b""  # an epilogue, which RFC 2046 says to ignore
            return False
        return self._read_value(found)

    def _read_value(self, found: list[bytes]) -> bool:
        """Read the value of a part, or the nothing before the first boundary, up to the next boundary."""
        at = self._rest.find(self._line)
        is_whole = at != -1
        if self._state == "file":
            end = at if is_whole else max(0, len(self._rest) - len(self._line) + 1)
            found.append(self._rest[:end])
            self._rest = self._rest[end:]
        elif not is_whole:
            if len(self._rest) > MAX_FIELD_BYTES + len(self._line):
                raise MalformedBody(f"The field '{self._name[:100]}' has more than {MAX_FIELD_BYTES} bytes")
            return False
        elif self._state == "before":
            if at:
                raise MalformedBody("The multipart body must begin with the boundary given in the content-type")
        else:
            self._keep_field(self._rest[:at])
            self._rest = self._rest[at:]
        if not is_whole:
            return False
        self._rest = self._rest[len(self._line) :]
        self._state = "boundary"
        return True

    def _keep_field(self, value: bytes) -> None:
        if self._name in self.fields:
            raise MalformedBody(f"The multipart body has the field '{self._name}' more than once")
        if len(self.fields) == MAX_FIELDS:
            raise MalformedBody(f"The multipart body has more than {MAX_FIELDS} fields")
        try:
            self.fields[self._name] = value.decode()
        except UnicodeDecodeError:
            raise MalformedBody(f"The field '{self._name}' of the multipart body is not UTF-8") from None

    def _read_boundary_end(self) -> bool:
        if len(self._rest) < 2:
            return False
        ending, self._rest = self._rest[:2], self._rest[2:]
        if ending not in {b"\r\n", b"--"}:
            raise MalformedBody("The multipart body has a boundary with other text on its line")
        self._state = "head" if ending == b"\r\n" else "end"
        return True

    def _read_head(self) -> bool:
        end = self._rest.find(b"\r\n\r\n")
        if end == -1:
            if len(self._rest) > MAX_HEAD_BYTES:
                raise MalformedBody(f"The headers of a part have more than {MAX_HEAD_BYTES} bytes")
            return False
        self._name, filename = part_head(self._rest[:end])
        self._rest = self._rest[end + 4 :]
        self._state = "field"
        if filename is not None:
            self._begin_file(filename)
        return True

    def _begin_file(self, filename: str) -> None:
        if self._name != "file":
            raise MalformedBody(f"The file must be in the field 'file', not in '{self._name[:100]}'")
        if self.filename is not None:
            raise MalformedBody("The multipart body has the field 'file' more than once")
        self.filename = filename
        self._state = "file"
