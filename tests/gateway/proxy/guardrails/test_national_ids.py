import pytest

from tests.gateway.proxy.guardrails.examples import found_in

GIVEN = [
    ("us_ssn", "123-45-6789"),
    ("uk_nino", "AB 12 34 56 C"),
    ("uk_nino", "AB123456C"),
    ("de_steuer_id", "86095742719"),
    ("de_steuer_id", "86 095 742 719"),
    ("fr_nir", "184127645108946"),
    ("fr_nir", "1 84 12 76 451 089 46"),
    ("es_dni", "12345678Z"),
    ("es_dni", "X1234567L"),
    ("it_codice_fiscale", "RSSMRA85T10A562S"),
    ("nl_bsn", "111222333"),
    ("pl_pesel", "44051401359"),
    ("ch_ahv", "756.9217.0769.85"),
    ("br_cpf", "529.982.247-25"),
]
"""Made-up numbers that the issuers themselves show, or with correct check digits."""

NEVER_GIVEN = [
    ("us_ssn", "000-12-3456"),
    ("us_ssn", "666-12-3456"),
    ("us_ssn", "912-12-3456"),
    ("us_ssn", "123-00-3456"),
    ("us_ssn", "123-45-0000"),
    ("us_ssn", "078-05-1120"),
    ("us_ssn", "457-55-5462"),
    ("uk_nino", "QQ 12 34 56 C"),
    ("uk_nino", "GB 12 34 56 A"),
    ("uk_nino", "AB 12 34 56 E"),
    ("de_steuer_id", "86095742718"),
    ("de_steuer_id", "11111111111"),
    ("fr_nir", "184127645108947"),
    ("fr_nir", "584127645108946"),
    ("fr_nir", "184137645108962"),
    ("fr_nir", "184127A45108946"),
    ("es_dni", "12345678A"),
    ("it_codice_fiscale", "RSSMRA85T10A562A"),
    ("it_codice_fiscale", "VENMAZ10E79B960I"),
    ("nl_bsn", "111222334"),
    ("nl_bsn", "000000000"),
    ("pl_pesel", "44051401358"),
    ("pl_pesel", "44991401359"),
    ("pl_pesel", "29623003933"),
    ("ch_ahv", "756.9217.0769.86"),
    ("ch_ahv", "755.9217.0769.85"),
    ("br_cpf", "529.982.247-26"),
    ("br_cpf", "111.111.111-11"),
]


@pytest.mark.parametrize(("kind", "number"), GIVEN)
def test_a_number_that_could_be_given_is_found(kind: str, number: str) -> None:
    assert [number] == found_in("pii", f"it is {number}, he said", detect=[kind])


@pytest.mark.parametrize(("kind", "number"), NEVER_GIVEN)
def test_a_number_that_was_never_given_is_not(kind: str, number: str) -> None:
    assert [] == found_in("pii", f"it is {number}, he said", detect=[kind])


@pytest.mark.parametrize(("kind", "number"), GIVEN)
def test_a_number_inside_another_is_not_found(kind: str, number: str) -> None:
    assert [] == found_in("pii", f"x{number}7", detect=[kind])


def test_corsicans_have_a_letter_in_theirs() -> None:
    """INSEE: 2A counts as 19 and 2B as 18 for the key."""
    for letters, less in (("2A", 1_000_000), ("2B", 2_000_000)):
        body = f"18412{letters}451089"
        key = 97 - (int(body.replace("A", "0").replace("B", "0")) - less) % 97
        number = f"{body}{key:02d}"

        assert [number] == found_in("pii", number, detect=["fr_nir"])
