"""Detect personal data whose format is the same in all countries: e-mail addresses, phone numbers, payment cards and
bank accounts.

The detectors do not understand the text. Detectors recognize numbers by their check digits if they have any, and all
other data by its format.
"""

import re

from gateway.proxy.guardrails.detector import PatternDetector, pattern_detector

_BETWEEN = "[ \u00a0\u2009\u202f.-]"
"""Pattern for the separators between groups of digits."""


# ---- e-mail: RFC 5321 allows 64 octets before the @ and 255 behind it


def _address(found: "re.Match[str]") -> int:
    """Return the length of an e-mail address without dots and dashes that end a sentence, or 0 for a Git address such
    as ``git@host.org:path``.
    """
    text = found[0].rstrip(".-")
    behind = found.string[found.end() : found.end() + 2]
    if behind[:1] == ":" and behind[1:].strip():
        return 0
    labels = text[text.rindex("@") + 1 :].split(".")
    last = labels[-1]
    is_top = len(last) > 1 and (last.isalpha() or last.startswith("xn--"))
    return len(text) if is_top and len(labels) > 1 and all(labels) else 0


EMAIL = pattern_detector(
    "email",
    r"[\w.%+-]{1,64}@[\w.-]{3,255}",
    r"[\w.%+-]{1,64}(?:@[\w.-]{0,255}:?)?",
    before=r"(?<![\w.%+-])",
    longest=322,
    check=_address,
    hint="@",
)


# ---- cards: ISO/IEC 7812; the ranges are those that issuers publish

_ISSUERS = (
    (re.compile("4"), (13, 16, 19)),  # Visa
    (re.compile("5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"), (16,)),  # Mastercard
    (re.compile("3[47]"), (15,)),  # American Express
    (re.compile("6011|64[4-9]|65"), (16, 17, 18, 19)),  # Discover, RuPay
    (re.compile("30[0-5]|3[689]"), (14, 16, 19)),  # Diners Club
    (re.compile("35(?:2[89]|[3-8])"), (16, 17, 18, 19)),  # JCB
    (re.compile("62|81"), (16, 17, 18, 19)),  # UnionPay
    (re.compile("50|5[6-8]|6[37]"), (16, 18, 19)),  # Maestro
    (re.compile("220[0-4]"), (16, 17, 18, 19)),  # Mir
)


def _luhn(digits: str) -> bool:
    """Return whether the Luhn checksum of *digits* is correct (ISO/IEC 7812-1, annex B), without python-stdnum."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit)
        if place % 2:
            value = value * 2 - 9 if value > 4 else value * 2
        total += value
    return total % 10 == 0


def _card(found: "re.Match[str]") -> int:
    """Return the length of the longest card number at the start of a match, or 0. A card number ends at the end of a
    digit group.
    """
    text = found[0]
    ends = [place + 1 for place, character in enumerate(text) if character.isdigit()]
    digits = "".join([text[end - 1] for end in ends])
    for issuer, lengths in _ISSUERS:
        if issuer.match(digits) is None:
            continue
        for length in reversed(lengths):
            if length > len(digits) or (length < len(digits) and ends[length] == ends[length - 1] + 1):
                continue
            if _luhn(digits[:length]) and len(set(digits[:length])) > 1:
                return ends[length - 1]
    return 0


CARD = pattern_detector(
    "card",
    rf"[2-68][0-9](?:{_BETWEEN}?[0-9]){{11,17}}(?![0-9A-Za-z])",
    rf"[2-68](?:[0-9](?:{_BETWEEN}?[0-9]){{0,17}}{_BETWEEN}?)?",
    before=r"(?<![0-9])(?<![0-9][.,])",
    longest=40,
    check=_card,
)


# ---- bank accounts: ISO 13616, lengths by country as SWIFT's registry has them

_IBAN_LENGTHS = {
    length: countries.split()
    for length, countries in {
        15: "NO",
        16: "BE",
        18: "DK FI FO GL NL SD",
        19: "MK SI",
        20: "AT BA EE KZ LT LU XK",
        21: "CH HR LI LV",
        22: "BG BH CR DE GB GE IE ME RS VA",
        23: "AE GI IL IQ OM SO TL",
        24: "AD CZ ES MD PK RO SA SE SK TN VG",
        25: "LY PT ST",
        26: "IS TR",
        27: "BI DJ FR GR IT MC MR SM",
        28: "AL AZ BY CY DO GT HU LB NI PL SV",
        29: "BR EG PS QA UA",
        30: "JO KW MU",
        31: "MT SC",
        32: "LC",
        33: "RU",
    }.items()
}
_IBAN_LENGTH = {country: length for length, countries in _IBAN_LENGTHS.items() for country in countries}


def _iban(found: "re.Match[str]") -> int:
    text = found[0]
    length = _IBAN_LENGTH.get(text[:2].upper())
    ends = [place + 1 for place, character in enumerate(text) if character.isalnum()]
    if length is None or length > len(ends):
        return 0
    if length < len(ends) and ends[length] == ends[length - 1] + 1:
        return 0  # more letters follow: it is longer than the country has them
    account = [text[end - 1] for end in ends[:length]]
    number = "".join([str(int(character, 36)) for character in (*account[4:], *account[:4])])
    return ends[length - 1] if int(number) % 97 == 1 else 0


IBAN = pattern_detector(
    "iban",
    r"[A-Za-z]{2}[0-9]{2}(?:[ \u00a0-]?[A-Za-z0-9]){11,30}",
    r"[A-Za-z](?:[A-Za-z](?:[0-9](?:[0-9](?:[ \u00a0-]?[A-Za-z0-9]){0,30}[ \u00a0-]?)?)?)?",
    before=r"(?<![A-Za-z0-9])",
    longest=70,
    check=_iban,
)


# ---- phones: E.164 numbers have at most 15 digits with the country's; North America's have three groups

_COUNTRY_CODES = re.compile(
    "1|7|2[07]|2[1-6][0-9]|29[0-9]|3[0-469]|3[578][0-9]|4[013-9]|42[0-9]|5[1-8]|50[0-9]|59[0-9]"
    "|6[0-6]|6[7-9][0-9]|8[1246]|8[0578][0-9]|9[0-58]|9[679][0-9]"
)
"""Pattern for the assigned country calling codes (ITU-T E.164)."""
_GAP = "[ \u00a0().\\-/]"


def _international(found: "re.Match[str]") -> int:
    digits = "".join([character for character in found[0] if character.isdigit()])
    if not found[0].startswith("+"):
        digits = digits[2:]
    least = 11 if digits.startswith("1") else 8
    most = 11 if digits.startswith("1") else 15
    return len(found[0]) if least <= len(digits) <= most and _COUNTRY_CODES.match(digits) else 0


INTERNATIONAL_PHONE = pattern_detector(
    "phone",
    rf"(?:\+|(?<!:)00){_GAP}?[1-9](?:{_GAP}{{0,3}}[0-9]){{6,14}}(?![0-9])",
    rf"\+(?:{_GAP}?(?:[1-9](?:{_GAP}{{0,3}}[0-9]){{0,14}}{_GAP}{{0,3}})?)?"
    rf"|(?<!:)0(?:0(?:{_GAP}?(?:[1-9](?:{_GAP}{{0,3}}[0-9]){{0,14}}{_GAP}{{0,3}})?)?)?",
    before=r"(?<![\w+])(?<![0-9][.,])",
    longest=66,
    check=_international,
)

NORTH_AMERICAN_PHONE = pattern_detector(
    "phone",
    r"(?:1[ .-])?(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[ .-])[2-9][0-9]{2}[ .-][0-9]{4}(?![\w-])",
    r"(?:1(?:[ .-]|\Z))?"
    r"(?:\((?:[2-9](?:[0-9](?:[0-9](?:\)(?: ?(?:[2-9][0-9]{0,2}|[2-9][0-9]{2}[ .-][0-9]{0,4})?)?)?)?)?)?"
    r"|[2-9](?:[0-9](?:[0-9](?:[ .-](?:[2-9][0-9]{0,2}|[2-9][0-9]{2}[ .-][0-9]{0,4})?)?)?)?)?",
    before=r"(?<![\w.+-])",
    longest=20,
)

DETECTORS: dict[str, tuple[PatternDetector, ...]] = {
    "email": (EMAIL,),
    "phone": (INTERNATIONAL_PHONE, NORTH_AMERICAN_PHONE),
    "card": (CARD,),
    "iban": (IBAN,),
}
"""Detectors for personal data, by their names in the settings."""
