"""Models and their workers."""

import pytest
from pydantic import ValidationError

from gateway.settings import ModelSettings
from tests.gateway.settings.examples import parsed, sentences, with_model


def test_a_model_may_have_a_file_of_workers_only() -> None:
    model = parsed("models: [{name: tiny, workers_file: workers.yaml}]").models[0]

    assert ((), "workers.yaml") == (model.workers, model.workers_file)


def test_a_model_may_have_bedrock_only() -> None:
    """No worker is needed where Bedrock answers."""
    model = parsed("models: [{name: claude, fallbacks: [{bedrock: {model_id: m, region: us-east-1}}]}]").models[0]

    assert () == model.workers
    bedrock = model.fallbacks[0].bedrock
    assert bedrock is not None
    assert (4096, "m") == (bedrock.default_max_tokens, bedrock.model_id)


def test_the_rules_hold_for_parts_too() -> None:
    """A model without anything to answer is refused at once."""
    with pytest.raises(ValidationError, match="needs at least one worker, or a workers_file, or a fallback"):
        ModelSettings(name="tiny")


def test_a_local_tokenizer_needs_its_folder() -> None:
    """Where the engine may be asked instead, it does not."""
    assert ["models[0].tokenizer.path is required if source is local."] == sentences(
        with_model(tokenizer={"source": "local"})
    )
    assert "auto" == parsed(with_model(tokenizer={})).models[0].tokenizer.source


def test_prices_are_of_tokens_or_of_hours() -> None:
    assert ["models[0].price.gpu_hour_usd cannot be combined with prices per token."] == (
        sentences(with_model(price={"gpu_hour_usd": 4, "input_usd": 1}))
    )


def test_dynamo_frontends_take_no_priority_of_requests() -> None:
    workers = [{"url": "http://a:8000"}, {"url": "http://b:8000", "dynamo": {}}]

    assert [
        "models[0].workers[1].dynamo cannot be combined with engine_priority. Dynamo does not read the field priority."
    ] == sentences(with_model(workers=workers, engine_priority="low_first"))
    assert "none" == parsed(with_model(workers=workers)).models[0].engine_priority
