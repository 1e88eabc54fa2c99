"""Detect secrets: API keys with a known prefix, private keys, tokens, and values that look random.

The patterns are those that the issuers publish for secret scanners. Long secrets are recognized by their beginning. The
characters that follow are removed too, whatever their number.
"""

import math
import re
from collections import Counter
from itertools import pairwise

from gateway.proxy.guardrails.detector import CONTEXT_CHARS, PatternDetector, Rest, pattern_detector

_NOT_IN_WORD = r"(?<![A-Za-z0-9_-])"
_TOKEN = Rest(re.compile(r"[A-Za-z0-9_-]*"))


def _nested(literal: str, then: str) -> str:
    """Return a pattern that matches every beginning of *literal*, and the whole *literal* followed by *then*."""
    pattern = f"{re.escape(literal[-1])}{then}"
    for character in reversed(literal[:-1]):
        pattern = f"{re.escape(character)}(?:{pattern})?"
    return pattern


def _marked(mark: str, characters: str, least: int) -> PatternDetector:
    """Return a detector for keys that begin with *mark* and continue with at least *least* further *characters*."""
    return pattern_detector(
        "secret",
        f"{re.escape(mark)}{characters}{{{least}}}",
        _nested(mark, f"{characters}{{0,{least}}}"),
        before=_NOT_IN_WORD,
        longest=len(mark) + least + 1,
        hint=mark,
        rest=_TOKEN,
    )


_W = "[A-Za-z0-9]"
_DASHED = "[A-Za-z0-9_-]"
_MARKED = (
    *[_marked(mark, "[A-Z2-7]", 16) for mark in ("AKIA", "ASIA", "ABIA", "ACCA")],  # AWS access key ids
    *[_marked(f"gh{kind}_", _W, 36) for kind in "pousr"],  # GitHub, tokens of 2021
    _marked("github_pat_", "[A-Za-z0-9_]", 40),
    *[_marked(f"xox{kind}-", "[A-Za-z0-9-]", 16) for kind in "abeoprs"],  # Slack
    _marked("xapp-", "[A-Za-z0-9-]", 16),
    _marked("AIza", _DASHED, 35),  # Google
    _marked("sk-", _DASHED, 32),  # OpenAI, Anthropic, and who follows them
    *[_marked(f"{who}_{where}_", _W, 16) for who in ("sk", "rk") for where in ("live", "test")],  # Stripe
    _marked("glpat-", _DASHED, 20),  # GitLab
    _marked("npm_", _W, 36),
    _marked("hf_", _W, 30),  # Hugging Face
)

_OURS = pattern_detector(
    "secret",
    r"wg-[A-Za-z0-9][A-Za-z0-9._-]{0,62}-[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])",
    r"w(?:g(?:-(?:[A-Za-z0-9][A-Za-z0-9._-]{0,106})?)?)?",
    before=_NOT_IN_WORD,
    longest=112,
    hint="wg-",
)
"""Detector for API keys of the gateway itself, which `gateway.tenancy.teams.secret.new_secret` creates."""

_JWT = pattern_detector(
    "secret",
    r"eyJ[A-Za-z0-9_-]{10,512}\.eyJ[A-Za-z0-9_-]{4}",
    r"e(?:y(?:J(?:[A-Za-z0-9_-]{0,512}|[A-Za-z0-9_-]{10,512}\.(?:e(?:y(?:J[A-Za-z0-9_-]{0,4})?)?)?)?)?)?",
    before=r"(?<![A-Za-z0-9_.-])",
    longest=524,
    hint="eyJ",
    rest=Rest(re.compile(r"(?:[A-Za-z0-9_-]|\.(?=[A-Za-z0-9_-]))*"), look=2),
)
"""Detector for JSON Web Tokens (RFC 7519). The header and claims of a token are JSON objects, whose base64 form begins
with ``eyJ``.
"""

_PRIVATE_KEY = pattern_detector(
    "private_key",
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----",
    _nested("-----BEGIN ", r"[A-Z0-9 ]{0,60}-{0,5}"),
    longest=80,
    hint="-----BEGIN ",
    rest=Rest(re.compile(r"(?:[A-Za-z0-9+/=:,.\s]|\\(?!\")|-(?!----))*(?:-----END [A-Z0-9 ]{0,60}-----)?"), look=80),
)
"""Detector for private keys in PEM format (RFC 7468). In tool call arguments, the line breaks of a key are escaped."""


# ---- what is named as a secret: ``password = ...``

_VALUE = r"[^\s\"'\\,;<>{}()\[\]]"
_named = re.compile(
    r"(?:password|passwd|passwort|passphrase|wachtwoord|contrase(?:ñ|n)a|mot de passe|senha|has(?:ł|l)o"
    r"|secret|token|api[_-]?key|access[_-]?key|auth[_-]?key|private[_-]?key)s?(?:[_-][\w-]{0,12})?"
    r"(?:\\?[\"'])? ?[=:]>? ?(?:\\?[\"'])?\Z",
    re.IGNORECASE,
).search
_may_be_named = re.compile(r"[\w-]{4}(?:\\?[\"'])? ?[=:]>? ?(?:\\?[\"'])?\Z").search
"""Quick check that rejects most texts before the search for names of secrets, in a tenth of the search time."""
_NAMING_CHARS = 12
_public = re.compile(
    r"[a-z]+|[A-Z]+|[A-Z][a-z]+|[0-9.]+|.*(?:\.\.\.|\*\*\*|xxx|example|changeme|placeholder|redacted).*|[$%<].*|your.*"
    r"|[a-z_]+(?:\.[a-z_]+)+.*|none.*|null.*",
).fullmatch


def _named_value(found: "re.Match[str]") -> int:
    """Return the length of a value that a name such as `password` marks as a secret, or 0 if the value is a word or a
    placeholder.
    """
    text, start = found.string, found.start()
    if _may_be_named(text[max(0, start - _NAMING_CHARS) : start]) is None:
        return 0
    if _named(text[max(0, start - CONTEXT_CHARS) : start]) is None or _public(found[0].lower()):
        return 0
    value = found[0].rstrip(".:!?")
    has = [bool(re.search(kind, value)) for kind in ("[a-z]", "[A-Z]", "[0-9]", "[^A-Za-z0-9]")]
    return len(value) if len(value) >= 8 and sum(has) > 1 else 0


_NAMED = pattern_detector(
    "secret",
    rf"{_VALUE}{{8,64}}",
    rf"{_VALUE}{{1,64}}",
    before=r"(?:(?<=[=:\"'>])|(?<=[=:>] ))",
    longest=65,
    check=_named_value,
    rest=Rest(re.compile(rf"{_VALUE}*")),
)


# ---- what looks as random as a secret

_RANDOM_BITS = 3.5
"""Minimum entropy of a random secret in bits per character. In base64, 32 random characters have about 4.5, and the
lowest of a million samples had 3.6.
"""
_RANDOM_TURNS = 0.38
"""Minimum fraction of adjacent characters that belong to different classes, such as a letter and a digit. Random base64
has about 0.65.
"""
_is_hex = re.compile(r"[0-9a-fA-F-]+").fullmatch


def _class_of(character: str) -> int:
    return 0 if character.islower() else 1 if character.isupper() else 2 if character.isdigit() else 3


def _random(found: "re.Match[str]") -> int:
    """Return the length of a match that looks random, or 0 for a word, a path or a hexadecimal digest. Digests are
    common and seldom secret.
    """
    text = found[0]
    classes = [_class_of(character) for character in text]
    if classes.count(0) < 3 or classes.count(1) < 3 or not classes.count(2) or _is_hex(text):
        return 0
    turns = sum(1 for one, other in pairwise(classes) if one != other and 3 not in (one, other))
    size = len(text)
    bits = -sum(n / size * math.log2(n / size) for n in Counter(text).values())
    return size if turns >= _RANDOM_TURNS * (size - 1) and bits >= _RANDOM_BITS else 0


_UNMARKED = pattern_detector(
    "secret",
    r"[A-Za-z0-9+/_-]{32,128}",
    r"[A-Za-z0-9+/_-]{1,128}",
    before=r"(?<![A-Za-z0-9+/_-])",
    longest=129,
    check=_random,
    rest=Rest(re.compile(r"[A-Za-z0-9+/_-]*={0,2}"), look=3),
)

DETECTORS: dict[str, tuple[PatternDetector, ...]] = {
    "private_key": (_PRIVATE_KEY,),
    "marked": (*_MARKED, _OURS),
    "jwt": (_JWT,),
    "named": (_NAMED,),
    "random": (_UNMARKED,),
}
"""Detectors for secrets, by their names in the settings."""
