"""Workers that do a half of each request, and contradictions between them."""

from pathlib import Path
from typing import Any

import pytest

from gateway.settings import DisaggregationSettings, workers_in
from tests.gateway.settings.examples import parsed, sentences, with_model

PREFILL = {"url": "http://a:8000", "role": "prefill"}
DECODE = {"url": "http://b:8000", "role": "decode"}
BOTH = {"url": "http://c:8000"}


def test_a_model_may_have_workers_that_do_halves() -> None:
    """Beside those that do whole requests."""
    model = parsed(with_model(workers=[PREFILL, DECODE, BOTH], disaggregation={"flow": "nixl"})).models[0]

    assert ["prefill", "decode", "both"] == [worker.role for worker in model.workers]
    assert DisaggregationSettings(flow="nixl", min_uncached_tokens=None, replace_loopback=True) == model.disaggregation


def test_sglangs_prefill_workers_are_met_at_a_port() -> None:
    workers = [{**PREFILL, "bootstrap_port": 9000}, DECODE]
    model = parsed(with_model(workers=workers, disaggregation={"flow": "sglang"})).models[0]

    assert [9000, None] == [worker.bootstrap_port for worker in model.workers]


@pytest.mark.parametrize(
    ("model", "reported"),
    [
        (
            {"workers": [PREFILL, BOTH]},
            "models[0].workers[0].role is 'prefill', but the model has no disaggregation. Configure it, or "
            "remove the role.",
        ),
        (
            {"workers": [DECODE, BOTH], "disaggregation": {"flow": "nixl"}},
            "models[0].disaggregation needs at least one worker whose role is prefill, in addition to decode workers.",
        ),
        (
            {"workers": [PREFILL, BOTH], "disaggregation": {"flow": "nixl"}},
            "models[0].disaggregation needs at least one worker whose role is decode, in addition to prefill workers.",
        ),
        (
            {"workers": [{**PREFILL, "bootstrap_port": 9000}, DECODE], "disaggregation": {"flow": "nixl"}},
            "models[0].workers[0].bootstrap_port is allowed only for prefill workers of a model whose "
            "disaggregation.flow is sglang.",
        ),
        (
            {"workers": [PREFILL, {**DECODE, "bootstrap_port": 9000}], "disaggregation": {"flow": "sglang"}},
            "models[0].workers[1].bootstrap_port is allowed only for prefill workers of a model whose "
            "disaggregation.flow is sglang.",
        ),
        (
            {"workers": [PREFILL, DECODE], "disaggregation": {"flow": "sglang", "min_uncached_tokens": 9}},
            "models[0].disaggregation.min_uncached_tokens has no effect if flow is sglang, because SGLang's "
            "decode workers compute no prompts.",
        ),
        (
            {"workers": [PREFILL, DECODE], "disaggregation": {}},
            "models[0].disaggregation.flow is missing; it must be given.",
        ),
    ],
)
def test_a_contradiction_is_a_sentence(model: dict[str, Any], reported: str) -> None:
    assert [reported] == sentences(with_model(**model))


def test_who_is_missing_may_be_found() -> None:
    model = with_model(workers=[PREFILL], pods={"selector": "role=decode"}, disaggregation={"flow": "nixl"})

    assert ["prefill"] == [worker.role for worker in parsed(model).models[0].workers]


def test_a_file_of_workers_may_name_roles() -> None:
    reported = b"[{url: 'http://a:8000', role: prefill, bootstrap_port: 9000}, {url: 'http://b:8000', role: decode}]"

    assert ["prefill", "decode"] == [worker.role for worker in workers_in(reported, Path("workers.yaml"))]


def test_the_readmes_example_is_valid() -> None:
    """With the other flow as well."""
    page = (Path(__file__).parents[3] / "docs/concepts/prefill-decode.md").read_text(encoding="utf-8")
    example = page.partition("```yaml\n")[2].partition("```")[0]
    for text in (example, example.replace("flow: nixl", "flow: sglang")):
        model = parsed(text).models[0]

        assert ["prefill", "prefill", "decode"] == [worker.role for worker in model.workers]
        assert model.disaggregation is not None
