"""Texts that are parts of one message, looked at together."""

import asyncio
import itertools
import json
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.proxy.guardrails.filter import BLOCK, LOG, PASS, FilterRequest, Text
from gateway.proxy.guardrails.http_filter import HttpFilter
from gateway.proxy.guardrails.parts import NEAR_CHARS, Together, groups_of, windows
from gateway.proxy.guardrails.request_texts import request_texts
from gateway.proxy.guardrails.service_caller import ServiceCaller, ServiceLimits
from tests.gateway.examples import Clock
from tests.gateway.proxy.guardrails.examples import CARD, MAIL, a_filter, found_in


def asked(*parts: str, group: int = 1) -> FilterRequest:
    """The parts of one message."""
    return FilterRequest("request", tuple([Text(part, group=group) for part in parts]), None, "tiny")


def groups(body: dict[str, Any]) -> list[list[str]]:
    texts = request_texts(body)
    return [[texts[place].said for place in places] for places in groups_of(texts)]


def test_the_parts_of_a_message_belong_together() -> None:
    """Not messages, items, prompts, or what stands beside the text of a part."""
    parts = [{"type": "text", "text": "a", "x": "y"}, {"type": "text", "text": "b"}]

    assert [["a", "b"], ["a", "b"]] == groups({"messages": [{"content": parts}, {"content": "c"}, {"content": parts}]})
    assert [["a", "b"]] == groups({"system": parts})
    assert [["a", "b"]] == groups({"input": [{"role": "user", "content": ["a", "b"]}, {"content": "c"}]})
    assert [] == groups({"prompt": ["a", "b"]})
    assert [] == groups({"input": ["a", "b"], "stop": ["a", "b"]})
    assert [] == groups({"messages": [{"content": parts[:1]}]})
    assert [] == groups({"tools": [{"parameters": {"enum": ["a", "b"]}}]})


async def test_each_action_looks_over_the_boundaries() -> None:
    for action, outcome in (("block", BLOCK), ("log", LOG)):
        assert outcome == await a_filter(action=action).verdict(asked(CARD[:9], CARD[9:]))  # type: ignore[arg-type]
    assert PASS == await a_filter().verdict(asked(CARD[:9], CARD[9:], group=0))
    assert ("a [CARD]", "[CARD]", "[CARD] b") == (
        await a_filter().verdict(asked(f"a {CARD[:5]}", CARD[5:9], f"{CARD[9:]} b"))
    ).texts


async def test_long_parts_are_looked_at_near_their_boundaries() -> None:
    """Only the ends of each part are joined, so the cost of parts is bounded; the middle was checked alone."""
    long = "hello " * 2_000
    found = [[len(piece.text) for piece in window] for window in windows([long, "x", long, "", long])]

    assert [[NEAR_CHARS, 1, NEAR_CHARS], [NEAR_CHARS, 0, NEAR_CHARS]] == found
    verdict = await a_filter().verdict(asked(f"{MAIL} {long}{CARD[:9]}", f"{CARD[9:]} {long}{CARD[:4]}", CARD[4:]))
    assert (f"[EMAIL] {long}[CARD]", f"[CARD] {long}[CARD]", "[CARD]") == verdict.texts


async def test_what_stands_in_place_of_a_match_is_not_looked_at_again() -> None:
    """Even where it is a word that is looked for."""
    looks = a_filter(kind="words", words=["word", "card"])

    assert ("[WORD]", "[WORD]", "x") == (await looks.verdict(asked("card", "word", "x"))).texts


async def test_the_rest_of_a_key_is_taken_out_of_the_next_part() -> None:
    """Also of one that was clean alone, and had been looked at before."""
    looks = a_filter(kind="secrets")
    lines = "\n".join(["MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" * 2] * 20)
    await looks.verdict(asked(lines))
    verdict = await looks.verdict(asked("-----BEGIN PRIVATE KEY-----\n" + lines, lines, "-----END PRIVATE KEY-----"))

    assert "redact" == verdict.outcome
    assert "MIIE" not in "".join(verdict.texts)


async def test_parts_that_were_clean_are_not_looked_at_again() -> None:
    """The same parts in another order are checked again."""
    looks = a_filter()
    one, other = "nothing at all 4111 1111 " + "hello " * 60, "hello " * 60 + "4111 1111"
    await looks.verdict(asked(one, other))

    assert {hash(one), hash(other), hash((one, other))} == set(looks._clean)
    assert PASS == await looks.verdict(asked(one, other))
    swapped = await looks.verdict(asked(other, CARD[10:]))
    assert "redact" == swapped.outcome


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=6), st.sampled_from([CARD, MAIL]))
def test_wherever_a_text_is_cut_nothing_is_found_afterwards(cuts: list[int], secret: str) -> None:
    """However its parts are joined; and what stands around it is left."""
    text = f"to my {secret} now"
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    parts = [text[begin:end] for begin, end in itertools.pairwise(places)]
    changed = asyncio.run(a_filter().verdict(asked(*parts))).texts

    assert [] == [found for separator in ("", "\n", " ") for found in found_in("pii", separator.join(changed))]
    assert "".join(changed).startswith("to my ")
    assert "".join(changed).endswith(" now")


# ---- filters that somebody else runs


def by_http(replacements: dict[str, str], action: str = "redact") -> HttpFilter:
    """A service that replaces texts."""

    def answer(request: httpx.Request) -> httpx.Response:
        texts = json.loads(request.content)["texts"]
        changed = list(texts)
        for each, instead in replacements.items():
            changed = [text.replace(each, instead) for text in changed]
        return httpx.Response(
            200, json={"action": "redact", "texts": changed} if changed != texts else {"action": "pass"}
        )

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    service = ServiceCaller("it", ServiceLimits(), clock=Clock())
    return HttpFilter("it", "http://judge/", api_key=None, action=action, client=client, service=service)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parts", "changed"),
    [
        (("a se", "cret b"), None),
        (("a se", "cr", "et b"), None),
        (("a one\ntwo b", "c"), ("a X b", "c")),
        (("a one", "two b"), ("a X", "[REDACTED] b")),
        (("a one", "two b", "one", "two"), ("a X b\nX", "[REDACTED]", "[REDACTED]", "[REDACTED]")),
        (("three one", "two b"), ("Y [REDACTED]", "[REDACTED] b")),
        (("three", "b", "three"), ("Y", "b", "Y")),
    ],
)
async def test_a_service_sees_the_parts_together_too(parts: tuple[str, ...], changed: tuple[str, ...] | None) -> None:
    """With line ends. What it changes over boundaries is taken out of all parts that it reaches."""
    verdict = await by_http({"one\ntwo": "X", "three": "Y"}).verdict(asked(*parts))

    assert (changed or ()) == verdict.texts


async def test_a_service_that_blocks_blocks_what_spans_parts() -> None:
    assert BLOCK == await by_http({"one\ntwo": "X"}, "block").verdict(asked("one", "two"))


def test_a_service_that_leaves_them_alone_together_changes_nothing_more() -> None:
    """A find that the service takes out of a part alone does not come back."""
    together = Together(asked("one", "two").texts)

    assert ["one", "two", "one\ntwo"] == together.asked
    assert ("X", "two") == together.placed(["X", "two", "one\ntwo"])
    assert ("[REDACTED]", "two") == together.placed(["X", "two", "one Z two"])
    assert ("[REDACTED]", "[REDACTED]o") == together.placed(["X", "two", "one Z o"])
    assert ("one", "twothree") == together.placed(["one", "two", "one\ntwothree"])
