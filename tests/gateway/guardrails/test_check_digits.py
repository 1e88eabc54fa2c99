import pytest

from gateway.guardrails.check_digits import luhn, mod11_10, mod97, weighted


@pytest.mark.parametrize("digits", ["4111111111111111", "378282246310005", "0"])
def test_luhn_holds_of_numbers_that_were_given(digits: str) -> None:
    assert luhn(digits)


@pytest.mark.parametrize("place", range(16))
def test_luhn_notices_every_single_wrong_digit(place: int) -> None:
    right = "4111111111111111"
    wrong = right[:place] + str((int(right[place]) + 1) % 10) + right[place + 1 :]

    assert not luhn(wrong)


def test_an_iban_leaves_one() -> None:
    """ISO 13616: the country and the check digits go to the end."""
    assert 1 == mod97("370400440532013000" + "DE89")
    assert 1 != mod97("370400440532013001" + "DE89")


def test_mod_11_10_as_german_tax_numbers_have_it() -> None:
    assert mod11_10("86095742719")
    assert not mod11_10("86095742718")


def test_a_weighted_sum_needs_a_weight_for_each_digit() -> None:
    assert 1 * 3 + 2 * 2 + 3 * 1 == weighted("123", (3, 2, 1))
    with pytest.raises(ValueError, match="zip"):
        weighted("123", (3, 2))
