import pytest

from gateway.protocol.endpoints.audio import audio_upstream_body, parse_audio, usage_of_audio
from gateway.protocol.endpoints.multipart import parts_of
from gateway.protocol.errors import InvalidField, MalformedBody
from gateway.protocol.usage import Usage

TYPE = b"multipart/form-data; boundary=b0"
SOUND = b"RIFF\x00\xff" + b"\r\n--b" * 3


def field(name: str, value: bytes, *, filename: str = "") -> bytes:
    file = f'; filename="{filename}"' if filename else ""
    return b'--b0\r\nContent-Disposition: form-data; name="%b"%b\r\n\r\n%b\r\n' % (name.encode(), file.encode(), value)


def form(*fields: bytes) -> bytes:
    return b"".join(fields) + b"--b0--\r\n"


FILE = field("file", SOUND, filename="a.wav")


class TestWhatIsRead:
    def test_a_form_says_its_model_and_offers_no_prompt(self) -> None:
        """Any worker can serve it, and it fills no cache that a prompt could hit."""
        read = parse_audio(form(FILE, field("model", b"whisper"), field("prompt", b"Hello")), TYPE)

        assert ("whisper", False, b"", None) == (read.model, read.streams, read.prompt, read.max_tokens)
        assert (True, False, False) == (read.asks_usage, read.reads_cache, read.writes_cache)

    @pytest.mark.parametrize(
        ("value", "streams"), [(b"true", True), (b"True", True), (b"1", True), (b"false", False), (b"", False)]
    )
    def test_a_stream_is_asked_for_as_forms_do(self, value: bytes, streams: bool) -> None:
        """In the spellings that the engines understand."""
        assert streams is parse_audio(form(field("model", b"whisper"), field("stream", value)), TYPE).streams

    def test_two_models_are_refused(self) -> None:
        """Parsers do not agree on which of them counts."""
        with pytest.raises(MalformedBody, match="the field 'model' more than once"):
            parse_audio(form(field("model", b"a"), FILE, field("model", b"b")), TYPE)

    @pytest.mark.parametrize(
        ("fields", "param"),
        [
            ([FILE], "model"),
            ([field("model", b"")], "model"),
            ([field("model", b"\xff")], "model"),
            ([field("model", b"m" * 513)], "model"),
            ([field("model", b"whisper", filename="model.txt")], "model"),
            ([field("model", b"whisper"), field("stream", b"perhaps")], "stream"),
        ],
    )
    def test_a_wrong_field_is_named(self, fields: list[bytes], param: str) -> None:
        """Before a worker gets the file."""
        with pytest.raises(InvalidField) as raised:
            parse_audio(form(*fields), TYPE)

        assert param == raised.value.param

    def test_a_body_that_is_no_form_is_malformed(self) -> None:
        """JSON, for one."""
        with pytest.raises(MalformedBody):
            parse_audio(b'{"model":"whisper"}', TYPE)


class TestUpstreamBody:
    def test_the_same_name_leaves_the_very_same_bytes(self) -> None:
        """Nothing is copied."""
        raw = form(FILE, field("model", b"whisper"))

        assert raw is audio_upstream_body(raw, TYPE, parse_audio(raw, TYPE), "whisper")

    def test_an_alias_becomes_the_name_of_the_worker(self) -> None:
        """In the field of that name, and nowhere else; also where the places of the fields are known already."""
        raw = form(field("model", b"speech"), FILE, field("prompt", b"speech"))
        renamed = form(field("model", b"w/3"), FILE, field("prompt", b"speech"))
        body = parse_audio(raw, TYPE)
        places = tuple((part.name, part.start, part.end) for part in parts_of(raw, TYPE))

        assert renamed == audio_upstream_body(raw, TYPE, body, "w/3")
        assert renamed == audio_upstream_body(raw, TYPE, body.changed(places=places), "w/3")


class TestUsage:
    @pytest.mark.parametrize(
        ("body", "usage"),
        [
            (b'{"text":"a","usage":{"type":"tokens","input_tokens":14,"output_tokens":3}}', Usage(14, 3)),
            (b'{"text":"a","usage":{"type":"tokens","input_tokens":14}}', Usage(14, 0)),
            (b'{"text":"a","usage":{"type":"duration","seconds":9}}', None),
            (b'{"text":"a"}', None),
            (b"1\n00:00:00,000 --> 00:00:02,000\nHello\n", None),
        ],
    )
    def test_only_tokens_count(self, body: bytes, usage: Usage | None) -> None:
        """vLLM counts seconds, and subtitles are no JSON."""
        assert usage == usage_of_audio(body)
