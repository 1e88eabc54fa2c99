"""Detectors of numbers that states give to people, chosen by country in the settings.

A number with check digits is found whatever stands around it. One without (United States, United Kingdom) is found by
its form, and by the parts that are never given.
"""

import re
from collections import Counter
from collections.abc import Callable

from gateway.guardrails.check_digits import mod11_10, weighted
from gateway.guardrails.detector import Shape, shape

_NOT_IN_WORD = r"(?<![A-Za-z0-9])(?<![0-9][.,])"


def _plain(found: "re.Match[str]") -> str:
    return "".join([character for character in found[0] if character.isalnum()]).upper()


def _if(is_good: Callable[[str], bool]) -> Callable[["re.Match[str]"], int]:
    """A check that is passed by the whole match or not at all."""

    def check(found: "re.Match[str]") -> int:
        return len(found[0]) if is_good(_plain(found)) else 0

    return check


def _digits(kind: str, groups: tuple[int, ...], is_good: Callable[[str], bool], between: str = "[ -]?") -> Shape:
    """So many digits, in groups that may stand apart."""
    first, *rest = groups
    pattern = f"[0-9]{{{first}}}" + "".join([f"{between}[0-9]{{{size}}}" for size in rest]) + r"(?![A-Za-z0-9])"
    beginning = ""
    for size in reversed(rest):
        beginning = f"(?:{between}[0-9]{{0,{size}}}|{between}[0-9]{{{size}}}{beginning})"
    beginning = f"[0-9]{{1,{first}}}|[0-9]{{{first}}}{beginning}" if beginning else f"[0-9]{{1,{first}}}"
    longest = sum(groups) + len(groups) + 1
    return shape(kind, pattern, beginning, before=_NOT_IN_WORD, longest=longest, check=_if(is_good))


# ---- United States: Social Security Administration, parts that are not issued


def _is_ssn(number: str) -> bool:
    area, group, serial = number[:3], number[3:5], number[5:]
    if area in ("000", "666") or area[0] == "9" or group == "00" or serial == "0000":
        return False
    return number not in ("078051120", "219099999")  # on a wallet's sample card, and in an advertisement


_US_SSN = _digits("us_ssn", (3, 2, 4), _is_ssn, between="[ -]")


# ---- United Kingdom: HMRC's manual NIM39110, prefixes that are not used


def _is_nino(number: str) -> bool:
    return number[:2] not in ("BG", "GB", "KN", "NK", "NT", "TN", "ZZ")


_UK_NINO = shape(
    "uk_nino",
    r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-D](?![A-Za-z0-9])",
    r"[A-CEGHJ-PR-TW-Z](?:[A-CEGHJ-NPR-TW-Z] ?(?:[0-9]|[0-9]{2} ?(?:[0-9]|[0-9]{2} ?(?:[0-9]|[0-9]{2} ?[A-D]?)?)?)?)?",
    before=_NOT_IN_WORD,
    longest=14,
    check=_if(_is_nino),
    flags=re.IGNORECASE,
)


# ---- Germany: tax identification number, Bundeszentralamt fuer Steuern


def _is_steuer_id(number: str) -> bool:
    """Of the first ten digits one stands there two or three times; the last is a check digit."""
    counts = sorted(Counter(number[:10]).values(), reverse=True)
    repeats = counts[0] in (2, 3) and (len(counts) == 1 or counts[1] == 1)
    return number[0] != "0" and repeats and mod11_10(number)


_DE_STEUER_ID = _digits("de_steuer_id", (2, 3, 3, 3), _is_steuer_id)


# ---- France: numero d'inscription au repertoire, INSEE; Corsica's departments are 2A and 2B


def _is_nir(number: str) -> bool:
    body, key = number[:13], number[13:]
    month = int(body[3:5])
    if body[0] not in "12378" or not (1 <= month <= 12 or 20 <= month <= 42 or month >= 50):
        return False
    for letter, less in (("A", 1_000_000), ("B", 2_000_000)):
        if body[6] == letter:
            return 97 - (int(body.replace(letter, "0")) - less) % 97 == int(key)
    return 97 - int(body) % 97 == int(key)


_FR_NIR = shape(
    "fr_nir",
    r"[12378] ?[0-9]{2} ?[0-9]{2} ?[0-9][0-9AB] ?[0-9]{3} ?[0-9]{3} ?[0-9]{2}(?![A-Za-z0-9])",
    r"[12378] ?(?:[0-9]|[0-9]{2} ?(?:[0-9]|[0-9]{2} ?(?:[0-9]|[0-9][0-9AB] ?(?:[0-9]{1,2}|[0-9]{3} ?"
    r"(?:[0-9]{1,2}|[0-9]{3} ?[0-9]{0,2})?)?)?)?)?",
    before=_NOT_IN_WORD,
    longest=22,
    check=_if(_is_nir),
)


# ---- Spain: DNI and NIE, letter by remainder (Ministerio del Interior)

_DNI_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"


def _is_dni(number: str) -> bool:
    return _DNI_LETTERS[int(number[:-1].translate(str.maketrans("XYZ", "012"))) % 23] == number[-1]


_ES_DNI = shape(
    "es_dni",
    r"(?:[0-9]{8}|[XYZ]-?[0-9]{7})[ -]?[A-HJ-NP-TV-Z](?![A-Za-z0-9])",
    r"[0-9]{1,7}|[XYZ]-?[0-9]{0,6}|(?:[0-9]{8}|[XYZ]-?[0-9]{7})[ -]?[A-HJ-NP-TV-Z]?",
    before=_NOT_IN_WORD,
    longest=13,
    check=_if(_is_dni),
    flags=re.IGNORECASE,
)


# ---- Italy: codice fiscale, D.M. 23 December 1976; letters take the place of digits where two people would share one

_ODD_DIGITS = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21)
_ODD = dict(
    zip(
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        (*_ODD_DIGITS, *_ODD_DIGITS, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23),
        strict=True,
    )
)


def _even(character: str) -> int:
    return int(character) if character.isdigit() else ord(character) - ord("A")


def _is_codice_fiscale(code: str) -> bool:
    total = sum(_even(character) if place % 2 else _ODD[character] for place, character in enumerate(code[:15]))
    return chr(ord("A") + total % 26) == code[15]


_N = "[0-9LMNP-V]"
_IT_CODICE_FISCALE = shape(
    "it_codice_fiscale",
    rf"[A-Z]{{6}}{_N}{{2}}[A-EHLMPRST]{_N}{{2}}[A-Z]{_N}{{3}}[A-Z](?![A-Za-z0-9])",
    rf"[A-Z]{{1,6}}|[A-Z]{{6}}(?:{_N}|{_N}{{2}}(?:[A-EHLMPRST](?:{_N}|{_N}{{2}}(?:[A-Z](?:{_N}{{0,2}}|{_N}{{3}}[A-Z]?))?)?)?)",
    before=r"(?<![A-Za-z0-9])",
    longest=17,
    check=_if(_is_codice_fiscale),
    flags=re.IGNORECASE,
)


# ---- the Netherlands, Poland, Switzerland and Brazil, by their check digits


def _is_bsn(number: str) -> bool:
    return number != "000000000" and weighted(number, (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0


def _is_pesel(number: str) -> bool:
    """The third and fourth digit are the month, with the century added in twenties."""
    is_date = 1 <= int(number[2:4]) % 20 <= 12 and 1 <= int(number[4:6]) <= 31
    return is_date and weighted(number, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)) % 10 == 0


def _is_ahv(number: str) -> bool:
    return number.startswith("756") and weighted(number, (1, 3) * 6 + (1,)) % 10 == 0


def _is_cpf(number: str) -> bool:
    if len(set(number)) == 1:
        return False
    for length in (9, 10):
        remainder = weighted(number[:length], range(length + 1, 1, -1)) * 10 % 11 % 10
        if remainder != int(number[length]):
            return False
    return True


DETECTORS: dict[str, tuple[Shape, ...]] = {
    each.kind: (each,)
    for each in (
        _US_SSN,
        _UK_NINO,
        _DE_STEUER_ID,
        _FR_NIR,
        _ES_DNI,
        _IT_CODICE_FISCALE,
        _digits("nl_bsn", (9,), _is_bsn),
        _digits("pl_pesel", (11,), _is_pesel),
        _digits("ch_ahv", (3, 4, 4, 2), _is_ahv, between=r"[. ]?"),
        _digits("br_cpf", (3, 3, 3, 2), _is_cpf, between=r"[.-]?"),
    )
}
"""By the name that settings have for them."""
