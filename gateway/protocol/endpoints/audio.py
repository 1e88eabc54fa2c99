"""Speech transcription and translation. The requests are forms with a file, and all workers serve them equally well."""

import msgspec

from gateway.protocol.body import MAX_NAME_CHARACTERS, Body, without_prompt
from gateway.protocol.endpoints.multipart import FormPart, parts_of, replaced
from gateway.protocol.engine_fields import engine_fields_among
from gateway.protocol.errors import DECODE_ERRORS, InvalidField
from gateway.protocol.usage import Usage

_TRUE = frozenset({"true", "1", "yes", "on", "t", "y"})  # spellings of pydantic, with which the engines read forms
_FALSE = frozenset({"", "false", "0", "no", "off", "f", "n"})


def parse_audio(raw: bytes, content_type: bytes) -> Body:
    """Parse the fields ``model`` and ``stream`` of a form. Takes O(bytes).

    Raises:
        MalformedBody: if *raw* is not a multipart body.
        InvalidField: if a field is missing or invalid; *param* names it.
    """
    parts = parts_of(raw, content_type)
    stream = (_text(raw, parts, "stream") or "").strip().lower()
    if stream not in _TRUE | _FALSE:
        raise InvalidField("'stream' must be true or false", param="stream")
    model = _text(raw, parts, "model")
    if not model:
        raise InvalidField("'model' must be the name of a model", param="model")
    return without_prompt(
        model,
        streams=stream in _TRUE,
        max_tokens=None,
        engine_fields=engine_fields_among({part.name for part in parts}),
    )


def audio_upstream_body(raw: bytes, content_type: bytes, body: Body, upstream_name: str) -> bytes:
    """Return the caller's form with the worker's model name in it. All other bytes stay unchanged."""
    if body.model == upstream_name:
        return raw
    if body.places is None:
        models = [part for part in parts_of(raw, content_type) if part.name == "model"]
    else:
        models = [
            FormPart(name, is_file=False, start=start, end=end) for name, start, end in body.places if name == "model"
        ]
    return replaced(raw, models, upstream_name.encode())


def usage_of_audio(body: bytes) -> Usage | None:
    """Return the usage in a transcription, or None if the usage is not in tokens. Most models report seconds. Takes
    O(bytes).
    """
    try:
        usage = _decode_answer(body).usage
    except DECODE_ERRORS:
        return None
    if usage is None or usage.input_tokens is None:
        return None
    return Usage(usage.input_tokens, usage.output_tokens or 0)


class _AudioUsage(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None


class _AudioAnswer(msgspec.Struct, gc=False):
    usage: _AudioUsage | None = None


_decode_answer = msgspec.json.Decoder(_AudioAnswer).decode


def _text(raw: bytes, parts: list[FormPart], name: str) -> str | None:
    """Return the value of the form field *name*, or None if the field is missing."""
    part = next((part for part in parts if part.name == name), None)
    if part is None:
        return None
    if part.is_file:
        raise InvalidField(f"'{name}' must be text, not a file", param=name)
    if part.end - part.start > MAX_NAME_CHARACTERS:
        raise InvalidField(f"'{name}' is longer than {MAX_NAME_CHARACTERS} bytes", param=name)
    try:
        return raw[part.start : part.end].decode()
    except UnicodeDecodeError:
        # Not chained: the cause carries the value.
        raise InvalidField(f"'{name}' is not UTF-8", param=name) from None
