"""Check digits, by which a number that somebody was given differs from any other."""

from collections.abc import Iterable, Sequence


def luhn(digits: str) -> bool:
    """ISO/IEC 7812-1 annex B: cards, and some tax numbers."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit)
        if place % 2:
            value = value * 2 - 9 if value > 4 else value * 2
        total += value
    return total % 10 == 0


def mod97(text: str) -> int:
    """ISO/IEC 7064 as IBANs have it: letters stand for 10 to 35."""
    return int("".join([str(int(character, 36)) for character in text])) % 97


def mod11_10(digits: str) -> bool:
    """ISO/IEC 7064 MOD 11,10, with the check digit at the end."""
    product = 10
    for digit in digits[:-1]:
        total = (int(digit) + product) % 10 or 10
        product = total * 2 % 11
    return (11 - product) % 10 == int(digits[-1])


def weighted(digits: Iterable[str], weights: Sequence[int]) -> int:
    """The sum of *digits*, each times its weight."""
    return sum(int(digit) * weight for digit, weight in zip(digits, weights, strict=True))
