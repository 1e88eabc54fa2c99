"""Detect national identity numbers, for the countries selected in the settings.

Regular expressions find candidates. The library python-stdnum validates their check digits and dates of birth, and
rejects numbers that are never issued.
"""

import importlib
import re
from collections.abc import Callable

from gateway.proxy.guardrails.detector import PatternDetector, pattern_detector

_NOT_IN_WORD = r"(?<![A-Za-z0-9])(?<![0-9][.,])"


class StdnumMissingError(ImportError):
    """Raised if a national identity number is configured but python-stdnum is not installed."""


def detectors() -> dict[str, tuple[PatternDetector, ...]]:
    """Return the detectors for national identity numbers, by their names in the settings.

    Raises:
        StdnumMissingError: if python-stdnum is not installed.
    """
    dni, nie, cpf = _valid("es.dni"), _valid("es.nie"), _valid("br.cpf")
    shapes = (
        _digits("us_ssn", (3, 2, 4), _valid("us.ssn"), between="[ -]"),
        _uk_nino(),
        _digits("de_steuer_id", (2, 3, 3, 3), _valid("de.idnr")),
        _fr_nir(_valid("fr.nir")),
        _es_dni(lambda number: dni(number) if number[0].isdigit() else nie(number)),
        _it_codice_fiscale(_valid("it.codicefiscale")),
        _digits("nl_bsn", (9,), _valid("nl.bsn")),
        _digits("pl_pesel", (11,), _valid("pl.pesel")),
        _digits("ch_ahv", (3, 4, 4, 2), _valid("ch.ssn"), between=r"[. ]?"),
        # Eleven equal digits pass the check and are never issued.
        _digits("br_cpf", (3, 3, 3, 2), lambda number: len(set(number)) > 1 and cpf(number), between=r"[.-]?"),
    )
    return {each.kind: (each,) for each in shapes}


def _valid(module: str) -> Callable[[str], bool]:
    """Return the validation function in the python-stdnum module *module*."""
    try:
        is_valid: Callable[[str], bool] = importlib.import_module(f"stdnum.{module}").is_valid
    except ModuleNotFoundError as error:
        raise StdnumMissingError(
            "Detecting national ids requires python-stdnum. Install warmgate[guardrails]."
        ) from error
    return is_valid


def _if(is_valid: Callable[[str], bool]) -> Callable[["re.Match[str]"], int]:
    """Return a check that accepts a whole match if *is_valid* accepts the match's letters and digits, and rejects it
    otherwise.
    """

    def check(found: "re.Match[str]") -> int:
        number = "".join([character for character in found[0] if character.isalnum()]).upper()
        return len(found[0]) if is_valid(number) else 0

    return check


def _digits(
    kind: str, groups: tuple[int, ...], is_valid: Callable[[str], bool], between: str = "[ -]?"
) -> PatternDetector:
    """Return a detector for numbers with digit groups of the sizes *groups*, separated by the pattern *between*."""
    first, *rest = groups
    pattern = f"[0-9]{{{first}}}" + "".join([f"{between}[0-9]{{{size}}}" for size in rest]) + r"(?![A-Za-z0-9])"
    beginning = ""
    for size in reversed(rest):
        beginning = f"(?:{between}[0-9]{{0,{size}}}|{between}[0-9]{{{size}}}{beginning})"
    beginning = f"[0-9]{{1,{first}}}|[0-9]{{{first}}}{beginning}" if beginning else f"[0-9]{{1,{first}}}"
    longest = sum(groups) + len(groups) + 1
    return pattern_detector(kind, pattern, beginning, before=_NOT_IN_WORD, longest=longest, check=_if(is_valid))


def _uk_nino() -> PatternDetector:
    """Return a detector for United Kingdom national insurance numbers, which have no check digits. HMRC's manual
    NIM39110 lists the unused prefixes.
    """
    unused = ("BG", "GB", "KN", "NK", "NT", "TN", "ZZ")
    return pattern_detector(
        "uk_nino",
        r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-D](?![A-Za-z0-9])",
        r"[A-CEGHJ-PR-TW-Z](?:[A-CEGHJ-NPR-TW-Z] ?(?:[0-9]|[0-9]{2} ?(?:[0-9]|[0-9]{2} ?"
        r"(?:[0-9]|[0-9]{2} ?[A-D]?)?)?)?)?",
        before=_NOT_IN_WORD,
        longest=14,
        check=_if(lambda number: number[:2] not in unused),
        flags=re.IGNORECASE,
    )


def _fr_nir(is_valid: Callable[[str], bool]) -> PatternDetector:
    """Return a detector for French social security numbers. According to INSEE, the month is never 13 to 19 or 43 to
    49, even if the month of birth is unknown.
    """
    return pattern_detector(
        "fr_nir",
        r"[12378] ?[0-9]{2} ?(?:0[1-9]|1[0-2]|[235-9][0-9]|4[0-2]) ?[0-9][0-9AB] ?[0-9]{3} ?[0-9]{3} ?[0-9]{2}"
        r"(?![A-Za-z0-9])",
        r"[12378] ?(?:[0-9]|[0-9]{2} ?(?:[0-9]|[0-9]{2} ?(?:[0-9]|[0-9][0-9AB] ?(?:[0-9]{1,2}|[0-9]{3} ?"
        r"(?:[0-9]{1,2}|[0-9]{3} ?[0-9]{0,2})?)?)?)?)?",
        before=_NOT_IN_WORD,
        longest=22,
        check=_if(is_valid),
    )


def _es_dni(is_valid: Callable[[str], bool]) -> PatternDetector:
    """Return a detector for Spanish identity numbers. Numbers of foreigners begin with X, Y or Z."""
    return pattern_detector(
        "es_dni",
        r"(?:[0-9]{8}|[XYZ]-?[0-9]{7})[ -]?[A-HJ-NP-TV-Z](?![A-Za-z0-9])",
        r"[0-9]{1,7}|[XYZ]-?[0-9]{0,6}|(?:[0-9]{8}|[XYZ]-?[0-9]{7})[ -]?[A-HJ-NP-TV-Z]?",
        before=_NOT_IN_WORD,
        longest=13,
        check=_if(is_valid),
        flags=re.IGNORECASE,
    )


def _it_codice_fiscale(is_valid: Callable[[str], bool]) -> PatternDetector:
    """Return a detector for Italian tax codes. Letters replace digits if two people would otherwise have the same code
    (D.M. 23 December 1976).
    """
    n = "[0-9LMNP-V]"
    return pattern_detector(
        "it_codice_fiscale",
        rf"[A-Z]{{6}}{n}{{2}}[A-EHLMPRST]{n}{{2}}[A-Z]{n}{{3}}[A-Z](?![A-Za-z0-9])",
        rf"[A-Z]{{1,6}}|[A-Z]{{6}}(?:{n}|{n}{{2}}(?:[A-EHLMPRST](?:{n}|{n}{{2}}(?:[A-Z](?:{n}{{0,2}}|{n}{{3}}[A-Z]?))?)?)?)",
        before=r"(?<![A-Za-z0-9])",
        longest=17,
        check=_if(is_valid),
        flags=re.IGNORECASE,
    )
