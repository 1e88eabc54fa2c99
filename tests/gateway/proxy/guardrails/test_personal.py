"""What is found, and what only looks like it; more of both, with languages, in benchmarks/guardrails_texts.jsonl."""

import pytest

from tests.gateway.proxy.guardrails.examples import found_in


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("mail jane.doe@example.org.", "jane.doe@example.org"),
        ("<a+b@x-y.co.uk>", "a+b@x-y.co.uk"),
        ("müller@beispiel.de", "müller@beispiel.de"),
        ("mailto:a.b@example.museum?x=1", "a.b@example.museum"),
    ],
)
def test_addresses_are_found_without_what_follows(text: str, found: str) -> None:
    assert [found] == found_in("pii", text, detect=["email"])


@pytest.mark.parametrize(
    "text", ["foo@bar", "@jane", "a@b.c1", "git@github.com:org/repo", "pip install x@1.2.3", "@.com"]
)
def test_not_everything_with_an_at_is_an_address(text: str) -> None:
    assert [] == found_in("pii", text, detect=["email"])


@pytest.mark.parametrize(
    "number",
    [
        "4111111111111111",
        "4111 1111 1111 1111",
        "3782-822463-10005",
        "5500.0000.0000.0004",
        "6011111111111117",
        "30569309025904",
    ],
)
def test_cards_are_found_in_every_grouping(number: str) -> None:
    assert [number] == found_in("pii", f"pay with {number} today, 12 times", detect=["card"])


@pytest.mark.parametrize(
    "text",
    [
        "4111111111111112",
        "1234567890123452",
        "0.4111111111111111",
        "41111111111111110000",
        "4111111111111111aa",
        "9" * 16,
    ],
)
def test_digits_that_no_issuer_gave_are_no_card(text: str) -> None:
    assert [] == found_in("pii", f"no {text} here", detect=["card"])


@pytest.mark.parametrize("place", range(1, 16))
def test_a_card_with_one_wrong_digit_is_not_found(place: int) -> None:
    right = "4111111111111111"
    wrong = right[:place] + str((int(right[place]) + 1) % 10) + right[place + 1 :]

    assert [] == found_in("pii", wrong, detect=["card"])


def test_a_card_ends_where_a_group_ends() -> None:
    assert ["4111 1111 1111 1111"] == found_in("pii", "4111 1111 1111 1111 123", detect=["card"])


@pytest.mark.parametrize(
    "iban", ["DE89370400440532013000", "GB82 WEST 1234 5698 7654 32", "de89 3704 0044 0532 0130 00"]
)
def test_accounts_are_found_by_their_country(iban: str) -> None:
    assert [iban] == found_in("pii", f"to {iban} and then", detect=["iban"])


@pytest.mark.parametrize(
    "text", ["DE89370400440532013001", "XX89370400440532013000", "DE8937040044053201300", "GB82 WEST"]
)
def test_an_account_with_a_wrong_digit_or_length_is_not_found(text: str) -> None:
    assert [] == found_in("pii", text, detect=["iban"])


@pytest.mark.parametrize(
    "number",
    ["+49 30 90182000", "+1 (415) 555-0132", "0049 170 1234567", "(415) 555-0132", "415-555-0132", "1-800-555-0199"],
)
def test_phones_are_found_in_international_and_north_american_form(number: str) -> None:
    assert [number] == found_in("pii", f"call {number}, please", detect=["phone"])


@pytest.mark.parametrize(
    "text", ["415-555", "2026-11-21 18:30", "192.168.100.200", "978-3-16-148410-0", "+12", "12:00 1234567"]
)
def test_other_numbers_are_no_phones(text: str) -> None:
    assert [] == found_in("pii", text, detect=["phone"])


@pytest.mark.parametrize("region", ["DE", "FR"])
def test_phones_without_a_country_are_found_where_it_is_known(region: str) -> None:
    number = {"DE": "030 901820", "FR": "06 12 34 56 78"}[region]

    assert [number] == found_in("pii", f"tel {number}.", detect=["email"], phone_regions=[region])
    assert [] == found_in("pii", f"tel {number}.", detect=["phone"])
