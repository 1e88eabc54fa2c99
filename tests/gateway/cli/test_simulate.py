import sys

import pytest

from gateway.cli.main import main
from gateway.cli.simulate import check_simulator
from gateway.server.listener import ServerError


def test_the_simulator_is_installed_here() -> None:
    check_simulator()


def test_an_installation_without_the_simulator_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The container image leaves the package out."""
    monkeypatch.setitem(sys.modules, "simulator", None)

    with pytest.raises(ServerError, match=r"The simulator is not installed\. The container image does not include it"):
        check_simulator()


@pytest.mark.parametrize("command", ["simulate", "demo"])
def test_commands_that_need_the_simulator_fail_without_it(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "simulator", None)

    assert 1 == main([command])
    assert "Install the warmgate wheel" in capsys.readouterr().err
