import json
from pathlib import Path

import pytest
import yaml

from gateway.cli.main import main

SMALLEST = "models: [{name: tiny, workers: [{url: 'http://127.0.0.1:1', api_key: sk-hidden}]}]\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "warmgate.yaml"
    path.write_text(SMALLEST)
    return path


def test_a_valid_file_is_one_line(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["config", "validate", "-c", str(config)])
    assert ("valid: 1 model, 1 listed worker, 0 teams\n", "") == capsys.readouterr()


def test_a_fault_is_a_sentence_and_exit_code_2(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config.write_text(f"{SMALLEST}server: {{prot: 1}}\n")

    assert 2 == main(["config", "validate", "-c", str(config)])
    assert ("", "server.prot is not a setting; did you mean 'port'.\n") == capsys.readouterr()


@pytest.mark.parametrize("command", [["config", "show"], ["check"]])
def test_the_settings_in_effect_are_shown_without_secrets(
    command: list[str], config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 0 == main([*command, "--config", str(config)])

    shown = capsys.readouterr().out
    assert 8080 == yaml.safe_load(shown)["server"]["port"]
    assert "sk-hidden" not in shown


def test_the_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["config", "schema"])
    assert "Settings of Warmgate" == json.loads(capsys.readouterr().out)["title"]
