"""Groups of settings for LoRA adapters."""

from pathlib import Path
from typing import Any

import pytest

from gateway.settings import AdapterSettings, AdaptersSettings
from tests.gateway.settings.examples import parsed, sentences, with_model

PAGE = Path(__file__).parents[3] / "docs/how-to/lora.md"


def test_a_model_is_its_own_unless_it_says_of_what_it_is_an_adapter() -> None:
    plain = parsed(with_model()).models[0]
    short = parsed(with_model(upstream_model="poet", adapter_of="base")).models[0]  # its former form
    long = parsed(with_model(upstream_model="base:poet", adapter={"of": "base", "name": "poet"})).models[0]
    unnamed = parsed(with_model(upstream_model="poet", adapter={"of": "base"})).models[0]

    assert [(None, None), ("base", "poet"), ("base", "poet"), ("base", "poet")] == [
        (model.adapter_base, model.adapter_name) for model in (plain, short, long, unnamed)
    ]


def test_what_loading_takes() -> None:
    reported = {"of": "base", "path": "/poet", "load_on_demand": True, "max_per_worker": 4}

    assert AdapterSettings(of="base", path="/poet", load_on_demand=True, max_per_worker=4) == (
        parsed(with_model(adapter=reported)).models[0].adapter
    )
    assert AdaptersSettings(load_s=1, load_timeout_s=60, retry_s=30) == parsed().adapters


@pytest.mark.parametrize(
    ("fields", "reported"),
    [
        (
            {"adapter": {"of": "base", "load_on_demand": True}},
            "models[0].adapter.path is required if load_on_demand is true.",
        ),
        (
            {"adapter": {"of": "base", "max_per_worker": 2}},
            "models[0].adapter.max_per_worker has an effect only if load_on_demand is true.",
        ),
        (
            {"adapter": {"of": "base"}, "adapter_of": "other"},
            "models[0].adapter_of is the former name of models[0].adapter.of, which is set too. Remove it.",
        ),
        ({"adapter": {}}, "models[0].adapter.of is missing; it must be given."),
    ],
)
def test_what_cannot_be_is_reported(fields: dict[str, Any], reported: str) -> None:
    assert [reported] == sentences(with_model(**fields))


def test_the_example_of_the_readme_is_one() -> None:
    """The adapter is served by the workers of its base."""
    section = PAGE.read_text(encoding="utf-8")
    base, poet = parsed(section.partition("```yaml\n")[2].partition("```")[0]).models

    assert ("llama-8b", "poet") == (poet.adapter_base, poet.adapter_name)
    assert base.workers == poet.workers
