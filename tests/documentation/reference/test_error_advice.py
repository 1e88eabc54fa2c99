import re
from pathlib import Path

from documentation.reference.error_advice import ADVICE, FORBIDDEN
from documentation.reference.errors import errors
from gateway.settings.table import describe

GATEWAY = Path(__file__).parents[3] / "gateway"


def test_there_is_advice_for_every_error_and_for_nothing_else() -> None:
    assert set(ADVICE) == {each.__name__ for each in errors()}


def test_the_codes_of_status_403_are_those_that_the_gateway_uses() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in GATEWAY.rglob("*.py"))

    assert set(re.findall(r'code="([a-z_]+)"', text)) >= FORBIDDEN.keys()
    assert set(re.findall(r'Forbidden\([^()]*code="([a-z_]+)"', text)) <= FORBIDDEN.keys()


def test_settings_that_the_advice_names_exist() -> None:
    known = {row.path for row in describe()}
    named = set(re.findall(r"`(server\.\w+)`", " ".join([*ADVICE.values(), *FORBIDDEN.values()])))

    assert set() == named - known
