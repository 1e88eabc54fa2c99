"""Configurations for tests: what a test does not name is plain."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.app.mapping.workers import model_workers
from gateway.settings import Settings, SettingsError, build
from gateway.workers.worker_spec import ModelWorkers

SMALLEST = """
server: {host: 127.0.0.1, port: 8080}
models: [{name: tiny, aliases: [gpt-4o], strategy: prefix_aware, workers: [{url: "http://127.0.0.1:18101"}]}]
"""
EXAMPLE = Path(__file__).parents[3] / "deploy" / "warmgate.example.yaml"


def parsed(text: str = SMALLEST, **environ: str) -> Settings:
    return build(yaml.safe_load(text), environ)


def with_workers(text: str = SMALLEST) -> tuple[ModelWorkers, ...]:
    """Return the models of *text* with their workers, as values."""
    return model_workers(parsed(text).models)


def sentences(text: str = SMALLEST, **environ: str) -> list[str]:
    with pytest.raises(SettingsError) as raised:
        parsed(text, **environ)
    return raised.value.sentences


def with_model(**fields: Any) -> str:
    text: str = yaml.safe_dump({"models": [{"name": "tiny", "workers": [{"url": "http://a:1"}], **fields}]})
    return text


def with_worker(**fields: Any) -> str:
    return with_model(workers=[{"url": "http://a:1", **fields}])
