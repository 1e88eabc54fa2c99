import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.protocol.errors import MalformedBody
from gateway.protocol.splice import asking_usage, members_of, spliced, without

MODEL = {"model": b'"other"'}


class TestWithout:
    @pytest.mark.parametrize(
        ("raw", "left"),
        [
            (b' { "a" : 1.50E+2 , "x":[1, 2] } ', b'{"a":1.50E+2}'),
            (b'{"x":1,"a":"\\u0041","x":{"a":2}}', b'{"a":"\\u0041"}'),
            (b'{"\\u0078":1,"a":{"x":1}}', b'{"a":{"x":1}}'),
            (b'{"x":1}', b"{}"),
            (b' {"a" :1} ', b' {"a" :1} '),
            (b"{}", b"{}"),
        ],
    )
    def test_every_value_of_the_key_goes_and_other_values_keep_their_bytes(self, raw: bytes, left: bytes) -> None:
        assert left == without(raw, ("x",))

    def test_the_places_of_the_members_may_be_known(self) -> None:
        raw = b'{"a":"' + b"y" * 40_000 + b'","x":1}'

        assert raw[:-7] + b"}" == without(raw, ("x",), members_of(raw))


class TestSpliced:
    @pytest.mark.parametrize(
        ("raw", "changed"),
        [
            (b'{"model":"a"}', b'{"model":"other"}'),
            (b' { "model"\t:\r\n "a" , "x": 1.50E+2 } ', b' { "model"\t:\r\n "other" , "x": 1.50E+2 } '),
            (b'{"x":{"model":"b"},"model":{"model":"a"}}', b'{"x":{"model":"b"},"model":"other"}'),
            (b'{"x":"\\",\\"model\\":1}","model":null}', b'{"x":"\\",\\"model\\":1}","model":"other"}'),
            (b'{"x":["model","model"],"model":[[]]}', b'{"x":["model","model"],"model":"other"}'),
            (b'{"mod\\u0065l":"a","x":"model"}', b'{"mod\\u0065l":"other","x":"model"}'),
            (b'{"model":"a","x":1,"model":"b"}', b'{"model":"other","x":1,"model":"other"}'),
            (
                '{"ü":"ü","model":"ü","m":"ü","model":1}'.encode(),
                '{"ü":"ü","model":"other","m":"ü","model":"other"}'.encode(),
            ),
            (b'{"\\"":1,"model":2}', b'{"\\"":1,"model":"other"}'),
            (b'{"x":1}', b'{"model":"other","x":1}'),
            (b"{}", b'{"model":"other"}'),
            (b" { } ", b' {"model":"other" } '),
        ],
    )
    def test_only_the_value_of_the_top_level_key_changes(self, raw: bytes, changed: bytes) -> None:
        """Nested keys, text that looks like a key, escapes, repeats and white space make no difference."""
        assert changed == spliced(raw, MODEL)

    def test_a_repeated_key_cannot_hide_behind_a_nested_one(self) -> None:
        """A value with the length of another's head, laid out so that a careless walk would go on inside it."""
        raw = b'{"a":{"p":1,"model":2},"model":"secret","a":[1,23]}'

        assert b'{"a":{"p":1,"model":2},"model":"other","a":[1,23]}' == spliced(raw, MODEL)

    def test_several_changes_go_in_together(self) -> None:
        """What is there is replaced, what is not is added in front."""
        assert b'{"b":2,"c":3,"a":1}' == spliced(b'{"a":0}', {"a": b"1", "b": b"2", "c": b"3"})

    def test_no_change_returns_the_same_bytes(self) -> None:
        """Nothing is normalized in passing."""
        raw = b' {"a" : 1.0e5, "a":\t"\\u0041"}\n'

        assert raw == spliced(raw, {})

    @pytest.mark.parametrize("raw", [b"[]", b"", b'{"a"', b'{"\xff":1}', b'{"a":"\xff","a":1}', b"[" * 100_000])
    def test_what_is_no_object_is_refused(self, raw: bytes) -> None:
        """The body was parsed before, so this is for callers who forgot."""
        with pytest.raises(MalformedBody):
            spliced(raw, MODEL)

    def test_huge_numbers_pass_also_beside_repeated_keys(self) -> None:
        """No number is ever computed with."""
        number = b"9" * 6000

        assert b'{"x":%s,"model":"other","x":1e999}' % number == spliced(
            b'{"x":%s,"model":1,"x":1e999}' % number, MODEL
        )


class TestAskingUsage:
    @pytest.mark.parametrize(
        ("raw", "changed"),
        [
            (b'{"a":1}', b'{"stream_options":{"include_usage":true},"a":1}'),
            (b'{"stream_options":null}', b'{"stream_options":{"include_usage":true}}'),
            (b'{"stream_options": { }}', b'{"stream_options": {"include_usage":true }}'),
            (b'{"stream_options":{"include_usage" : false}}', b'{"stream_options":{"include_usage" : true}}'),
            (
                b'{"stream_options":{ "continuous_usage_stats":true}}',
                b'{"stream_options":{"include_usage":true, "continuous_usage_stats":true}}',
            ),
            (
                b'{"stream_options":{"x":1},"stream_options":{"y":2}}',
                b'{"stream_options":{"include_usage":true,"y":2},"stream_options":{"include_usage":true,"y":2}}',
            ),
        ],
    )
    def test_the_wish_for_usage_joins_the_other_options(self, raw: bytes, changed: bytes) -> None:
        """Options that are there stay; of repeated keys the last one counts."""
        assert changed == asking_usage(raw)

    def test_the_model_changes_in_the_same_pass(self) -> None:
        """An alias and the wish for usage are one splice."""
        assert b'{"stream_options":{"include_usage":true},"model":"other","x":0}' == asking_usage(
            b'{"model":"a","x":0}', MODEL
        )
        assert b'{"stream_options":{"include_usage":true},"model":"other"}' == asking_usage(
            b'{"model":"a"}', MODEL, has_stream_options=False
        )

    def test_a_body_known_to_lack_the_options_gets_them_in_front(self) -> None:
        """The short way gives what the long way gives."""
        raw = b'\n{"model":"a"}'

        assert asking_usage(raw) == asking_usage(raw, has_stream_options=False)


keys = st.sampled_from(["model", "stream_options", "a", "é", '"', "\\", "{", ""])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.sampled_from(['"model":"x"', "}", "{", '\\"']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def spelled(draw: st.DrawFn) -> tuple[list[tuple[str, Any]], list[bytes]]:
    """Members of an object, and its text in pieces: every second piece is a value."""

    def space() -> bytes:
        return draw(st.sampled_from([b"", b" ", b"\r\n\t "]))

    def text_of(value: Any) -> bytes:
        separators = draw(st.sampled_from([(",", ":"), (" , ", " : ")]))
        return json.dumps(value, ensure_ascii=draw(st.booleans()), separators=separators).encode()

    members = draw(st.lists(st.tuples(keys, values), max_size=6))
    pieces = [space() + b"{" + space()]
    for index, (key, value) in enumerate(members):
        name = text_of(key)
        if draw(st.booleans()):
            name = b'"' + b"".join(b"\\u%04x" % ord(character) for character in key) + b'"'
        pieces[-1] += (b"," + space() if index else b"") + name + space() + b":" + space()
        pieces += [text_of(value), space()]
    pieces[-1] += b"}" + space()
    return members, pieces


class TestAnyObject:
    @given(spelled(), st.dictionaries(keys, values, max_size=3))
    def test_it_means_the_change_and_nothing_else(
        self, text: tuple[list[tuple[str, Any]], list[bytes]], changes: Mapping[str, Any]
    ) -> None:
        """The result reads as the original with the keys set, and all bytes but those values are the original's."""
        members, pieces = text
        new = {key: json.dumps(value).encode() for key, value in changes.items()}
        result = spliced(b"".join(pieces), new)

        assert dict(members) | dict(changes) == json.loads(result)
        kept = [new.get(members[index // 2][0], piece) if index % 2 else piece for index, piece in enumerate(pieces)]
        head, rest = b"".join(kept).split(b"{", 1)
        added = result.removeprefix(head + b"{").removesuffix(rest)
        assert head + b"{" + added + rest == result
        assert json.loads(b"{" + added.rstrip(b",") + b"}") == {
            key: value for key, value in changes.items() if key not in dict(members)
        }

    @given(spelled())
    def test_usage_is_wished_for_whatever_the_body_was(self, text: tuple[list[tuple[str, Any]], list[bytes]]) -> None:
        """All other members and options stay."""
        members, pieces = text
        body = dict(members)
        options = body.get("stream_options")
        wished = {**(options if isinstance(options, dict) else {}), "include_usage": True}

        assert {**body, "stream_options": wished} == json.loads(asking_usage(b"".join(pieces)))
