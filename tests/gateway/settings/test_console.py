"""Facts about the settings of the console."""

import pytest

from gateway.settings.console import ConsoleSettings
from tests.gateway.settings.examples import SMALLEST, sentences

ADMIN = "admin: {keys: [{role: owner, secret: x}]}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "console: {enabled: true}",
            ["console.enabled needs an admin key, with which people log in. Configure admin.keys."],
        ),
        (
            f"{ADMIN}\nconsole: {{allowed_hosts: ['https://x']}}",
            ["console.allowed_hosts[0] is 'https://x'; the value must be a host name."],
        ),
    ],
)
def test_what_is_wrong_is_reported_by_its_place(text: str, expected: list[str]) -> None:
    assert expected == sentences(f"{SMALLEST}\n{text}")


def test_the_console_is_off_unless_it_is_enabled() -> None:
    assert ConsoleSettings() == ConsoleSettings(enabled=False, session_idle_s=3600, session_max_s=43_200)
