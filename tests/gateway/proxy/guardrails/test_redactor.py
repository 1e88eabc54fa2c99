"""What comes out does not depend on how a text was cut."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.proxy.guardrails.redactor import Redactor, Scan, matches, redacted
from tests.gateway.proxy.guardrails.examples import CARD, MAIL, a_scan, every_kind

KINDS = Scan(
    [
        *every_kind().detectors,
        *a_scan("secrets").detectors,
        *a_scan("words", words=["project blue moon", "zebra"], patterns=[r"\bTICKET-[0-9]{3,6}\b"]).detectors,
    ]
)
FRAGMENTS = (
    *(MAIL, CARD, "5500000000000004", "DE89 3704 0044 0532 0130 00", "+49 30 901820", "(415) 555-0132", "212-555-0198"),
    *(
        "078-05-1121",
        "AB 12 34 56 C",
        "86095742719",
        "1 84 12 76 451 089 46",
        "12345678Z",
        "X1234567L",
        "RSSMRA85T10A562S",
    ),
    *("111222333", "44051401359", "756.9217.0769.85", "529.982.247-25", "AKIAIOSFODNN7EXAMPLE", "ghp_" + "a1B2" * 9),
    *(
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_1",
        "password = hunter2!x9",
        "project  blue\nmoon",
        "project" + " " * 15,
        " " * 9 + "blue moon",
        "TICKET-1234",
    ),
    "-----BEGIN PRIVATE KEY-----\nMIIE abc==\nzz-\n-----END PRIVATE KEY-----",
    *(
        "1",
        "12 ",
        "-",
        "0",
        "00",
        "+",
        "@",
        "A",
        "DE",
        "\n",
        ":",
        "= ",
        "git@github.com:org/x",
        "--",
        "x@y",
        "é",
        "ß",
        "日本",
    ),
    *(" ", ". ", ", ", "hello", "the ", "(", "eyJ", "-----BEGIN", "AKIA", "token: ", '"', "\\"),
)
TEXTS = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=8).map("".join)


@settings(max_examples=60, deadline=None)
@given(TEXTS, st.data())
def test_a_text_in_pieces_comes_out_as_the_whole_text(text: str, data: st.DataObject) -> None:
    """The oracle is the same text at once; pieces of any length, one letter each too."""
    whole, found = redacted(KINDS, text)
    redactor = Redactor(KINDS)
    out, rest = "", text
    while rest:
        size = data.draw(st.integers(1, 12))
        out += redactor.feed(rest[:size])
        rest = rest[size:]

    assert (whole, found) == (out + redactor.end(), redactor.found)


@settings(max_examples=60, deadline=None)
@given(TEXTS)
def test_matches_are_the_texts_that_are_taken_out(text: str) -> None:
    changed, out, at = matches(KINDS, text), "", 0
    for detector, match in changed:
        out += text[at : match.start] + KINDS.in_place_of(detector)
        at = match.end

    assert redacted(KINDS, text) == (out + text[at:], len(changed))


def test_only_what_may_become_a_match_waits() -> None:
    redactor = Redactor(a_scan())

    assert "Your number is " == redactor.feed("Your number is 4111")
    assert "" == redactor.feed(" 1111 1111 11")
    assert "[CARD] and" == redactor.feed("11 and so on")[:10]


def test_a_word_that_is_no_match_flows_with_the_next_one() -> None:
    redactor = Redactor(a_scan())

    assert ["", "The ", "quick "] == [redactor.feed(piece) for piece in ("The", " quick", " brown")]
    assert "brown" == redactor.end()


def test_the_rest_of_a_long_secret_is_swallowed_as_it_comes() -> None:
    """Nothing of it waits in memory, nor comes out."""
    redactor = Redactor(a_scan("secrets"))
    out = redactor.feed("-----BEGIN PRIVATE KEY-----\n")
    for _ in range(1000):
        out += redactor.feed("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEA\n")
        assert len(redactor._text) < 300
    out += redactor.feed("-----END PRIVATE KEY-----\nThanks") + redactor.end()

    assert "[PRIVATE_KEY]\nThanks" == out


def test_the_leftmost_match_counts_and_of_several_the_longest() -> None:
    scan = a_scan("words", words=["blue", "blue moon", "moon river"])

    assert ("[WORD] river", 1) == redacted(scan, "blue moon river")


def test_what_is_allowed_passes_as_it_is() -> None:
    scan = a_scan(allow=["Support@Example.org"])

    assert ("support@example.org, [EMAIL]", 1) == redacted(scan, f"support@example.org, {MAIL}")


def test_a_replacement_stands_for_all_kinds() -> None:
    assert (f"{'***'} {'***'}", 2) == redacted(a_scan(replacement="***"), f"{MAIL} {CARD}")


@settings(max_examples=40, deadline=None)
@given(
    st.recursive(
        st.text(max_size=6) | st.sampled_from([MAIL, CARD, "\n" + MAIL, '"' + MAIL, 4111111111111111, 7]),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=6,
    ),
    st.integers(1, 5),
)
def test_arguments_stay_json_however_they_are_cut(value: object, size: int) -> None:
    text = json.dumps(value)
    redactor = Redactor(a_scan(), is_json=True)
    out = "".join([redactor.feed(text[at : at + size]) for at in range(0, len(text), size)]) + redactor.end()

    json.loads(out)
    assert MAIL not in out
