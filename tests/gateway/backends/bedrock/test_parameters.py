import re
from typing import Any

import pytest

from gateway.backends.bedrock.family import FAMILIES, OTHER, Family, family_of
from gateway.backends.bedrock.parameters import (
    Sampling,
    left_out,
    read_max_tokens,
    read_sampling,
    refuse_unservable,
    request_metadata,
    service_tier,
)
from gateway.protocol.errors import InvalidField

NOVA, GPT_OSS = FAMILIES["nova"], FAMILIES["gpt-oss"]
CLAUDE_4_5, CLAUDE_4_7 = family_of("anthropic.claude-haiku-4-5-20251001-v1:0"), family_of("anthropic.claude-opus-4-7")
CLAUDE_3 = family_of("anthropic.claude-3-haiku-20240307-v1:0")


def sampling(fields: dict[str, Any], family: Family = OTHER, *, thinks: bool = False) -> Sampling:
    return read_sampling(fields, family, thinks=thinks)


# --- fates --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 2),
        ("best_of", 2),
        ("logprobs", True),
        ("top_logprobs", 5),
        ("logit_bias", {"50256": -100}),
        ("prompt_logprobs", 0),
        ("modalities", ["text", "audio"]),
        ("audio", {"voice": "alloy"}),
        ("web_search_options", {}),
        ("guided_regex", "a+"),
        ("guided_choice", ["a", "b"]),
        ("guided_grammar", "root ::= x"),
        ("structural_tag", "{}"),
        ("bad_words", ["x"]),
        ("allowed_token_ids", [1]),
        ("continue_final_message", True),
        ("add_generation_prompt", False),
        ("echo", True),
        ("chat_template", "{{ x }}"),
        ("documents", [{}]),
        ("return_token_ids", True),
        ("include_stop_str_in_output", True),
        ("use_beam_search", True),
    ],
)
def test_what_would_be_silently_wrong_is_refused(field: str, value: object) -> None:
    with pytest.raises(InvalidField, match=f"'{field}' is not supported by the Bedrock fallback") as caught:
        refuse_unservable({"model": "m", field: value})

    assert field == caught.value.param


def test_neutral_values_are_no_hindrance() -> None:
    """Asking for nothing special is neither refused nor named."""
    fields = {
        "n": 1,
        "logprobs": False,
        "top_logprobs": 0,
        "logit_bias": {},
        "modalities": ["text"],
        "prompt_logprobs": None,
        "add_generation_prompt": True,
        "frequency_penalty": 0,
        "presence_penalty": 0.0,
        "repetition_penalty": 1.0,
        "min_p": 0,
        "seed": None,
        "store": False,
        "stop_token_ids": [],
        "skip_special_tokens": True,
        "chat_template_kwargs": {"enable_thinking": True},
        "messages": [{"role": "assistant", "content": "x", "tool_calls": [], "annotations": [], "audio": None}],
    }
    refuse_unservable(fields)

    assert set() == left_out(fields)


def test_soft_fields_are_left_out_and_named() -> None:
    fields = {
        "seed": 1,
        "frequency_penalty": 0.1,
        "repetition_penalty": 1.1,
        "min_p": 0.05,
        "store": True,
        "prediction": {},
        "cache_salt": "s",
        "chat_template_kwargs": {"enable_thinking": True, "tone": "dry"},
        "brand_new": 0,
        "temperature": 1,
        "messages": [
            {"role": "user", "content": "a", "name": "ann"},
            {"role": "assistant", "content": "b", "reasoning_content": "hm"},
            {"role": "tool", "tool_call_id": "c", "name": "f", "content": "4"},
        ],
    }

    assert {
        "seed",
        "frequency_penalty",
        "repetition_penalty",
        "min_p",
        "store",
        "prediction",
        "cache_salt",
        "chat_template_kwargs",
        "brand_new",
        "messages.name",
        "messages.reasoning_content",
    } == left_out(fields)


# --- limits of the output -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "tokens"),
    [
        ({}, None),
        ({"max_tokens": None}, None),
        ({"max_tokens": 7}, 7),
        ({"max_completion_tokens": 9, "max_tokens": 7}, 9),
    ],
)
def test_the_newer_limit_counts(fields: dict[str, Any], tokens: int | None) -> None:
    assert tokens == read_max_tokens(fields)


@pytest.mark.parametrize("value", [0, -1, "10", True, 1.5])
def test_a_limit_is_a_number_of_tokens(value: object) -> None:
    with pytest.raises(InvalidField, match="'max_tokens' must be an integer of at least 1"):
        read_max_tokens({"max_tokens": value})


# --- sampling and stops -------------------------------------------------------------------------------------------


def test_sampling_is_said_in_converses_words() -> None:
    assert Sampling({"temperature": 0.5, "topP": 0.9}) == sampling({"temperature": 0.5, "top_p": 0.9})
    assert Sampling() == sampling({})


@pytest.mark.parametrize(("asked", "sent"), [(0, 0), (0.3, 0.3), (1, 1), (1.7, 1), (2, 1)])
def test_temperature_is_clamped_to_one(asked: float, sent: float) -> None:
    """OpenAI's range ends at 2, Converse's at 1."""
    assert {"temperature": sent} == sampling({"temperature": asked}).inference


@pytest.mark.parametrize(
    ("family", "own", "dropped"),
    [
        (CLAUDE_3, {"top_k": 40}, set()),
        (NOVA, {"inferenceConfig": {"topK": 40}}, set()),
        (OTHER, {}, {"top_k"}),
        (CLAUDE_4_7, {}, {"top_k"}),
    ],
)
def test_top_k_is_a_models_own_field(family: Family, own: dict[str, Any], dropped: set[str]) -> None:
    assert Sampling(own=own, dropped=frozenset(dropped)) == sampling({"top_k": 40}, family)


def test_top_k_ends_where_the_model_ends_it_and_none_says_nothing() -> None:
    """0 and -1 are vLLM's words for all."""
    assert {"inferenceConfig": {"topK": 128}} == sampling({"top_k": 1000}, NOVA).own
    assert [Sampling(), Sampling()] == [sampling({"top_k": value}) for value in (0, -1)]


def test_claude_takes_temperature_or_top_p() -> None:
    asked = {"temperature": 0.5, "top_p": 0.9}

    assert Sampling({"temperature": 0.5}, dropped=frozenset({"top_p"})) == sampling(asked, CLAUDE_4_5)
    assert {"topP": 0.9} == sampling({"top_p": 0.9}, CLAUDE_4_5).inference
    assert {"temperature": 0.5, "topP": 0.9} == sampling(asked, CLAUDE_3).inference


def test_who_takes_no_sampling_or_thinks_gets_none() -> None:
    asked = {"temperature": 0.5, "top_p": 0.9, "top_k": 5}
    nothing = Sampling(dropped=frozenset(asked))

    assert nothing == sampling(asked, CLAUDE_4_7)
    assert nothing == sampling(asked, CLAUDE_3, thinks=True)


@pytest.mark.parametrize(
    ("stop", "sent"),
    [("END", ["END"]), (["a", "", "b", "a"], ["a", "b"]), ("", None), ([""], None), ([], None), ("\n", ["\n"])],
)
def test_stops_are_a_list_without_empty_strings(stop: object, sent: list[str] | None) -> None:
    made = sampling({"stop": stop})

    assert (sent, ()) == (made.inference.get("stopSequences"), made.stops)


def test_stops_that_cannot_be_sent_are_the_gateways() -> None:
    """More than four, those of a family that takes none, white space where the model refuses it."""
    assert ({"stopSequences": list("abcd")}, ("e", "f")) == (
        sampling({"stop": list("abcdef")}).inference,
        sampling({"stop": list("abcdef")}).stops,
    )
    assert Sampling(stops=("a",)) == sampling({"stop": "a"}, GPT_OSS)
    assert Sampling({"stopSequences": ["a"]}, stops=("\n\n",)) == sampling({"stop": ["\n\n", "a"]}, CLAUDE_4_5)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", "hot"),
        ("temperature", -0.1),
        ("temperature", True),
        ("top_p", 1.1),
        ("top_k", 1.5),
        ("top_k", False),
        ("stop", 7),
        ("stop", ["a", 7]),
    ],
)
def test_a_bad_value_is_refused_with_its_field(field: str, value: object) -> None:
    """No bad value is passed on for Bedrock to find."""
    with pytest.raises(InvalidField) as caught:
        sampling({field: value})

    assert field == caught.value.param


# --- beside the question ------------------------------------------------------------------------------------------


def test_metadata_has_only_what_bedrock_allows() -> None:
    fields = {"metadata": {"größe!": "a\u00e9b", "n": 7, "": "x", "o": {}, "long": "y" * 300}}

    assert {"gr__e_": "a_b", "n": "7", "long": "y" * 256} == request_metadata(fields)


def test_metadata_has_at_most_sixteen_pairs() -> None:
    made = request_metadata({"user": "u", "metadata": {f"k{n}": "v" for n in range(20)}})

    assert 16 == len(made)
    assert ["user", "k0"] == list(made)[:2]


def test_a_user_goes_to_the_log_as_a_digest() -> None:
    """It may be the address of a person; the same user has the same digest."""
    made = request_metadata({"user": "ann@example.com"})

    assert made == request_metadata({"safety_identifier": "ann@example.com", "user": "x"})
    assert re.fullmatch("[0-9a-f]{32}", made["user"])
    assert {} == request_metadata({"user": "", "metadata": None})


@pytest.mark.parametrize(
    ("tier", "said"),
    [
        (None, (None, True)),
        ("auto", (None, True)),
        ("default", (None, True)),
        ("flex", ("flex", True)),
        ("priority", ("priority", True)),
        ("scale", (None, False)),
        (7, (None, False)),
    ],
)
def test_a_service_tier_has_a_word_or_none(tier: object, said: tuple[str | None, bool]) -> None:
    assert said == service_tier({"service_tier": tier})
