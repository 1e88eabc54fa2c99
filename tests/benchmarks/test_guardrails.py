"""The labelled set is what it says, and the figures are made of it as reported."""

import argparse
import random

import pytest

from benchmarks import guardrails as benchmark
from benchmarks.guardrails import Labelled, leaks, place, prose, read_texts, run, scan_for, scored, streamed
from gateway.proxy.guardrails.redactor import matches

TEXTS = read_texts()
KNOWN = {"private_key", "secret", "email", "phone", "card", "iban", "us_ssn", "uk_nino", "de_steuer_id", "fr_nir"} | {
    "es_dni",
    "it_codice_fiscale",
    "nl_bsn",
    "pl_pesel",
    "ch_ahv",
    "br_cpf",
}


def test_the_set_has_several_hundred_texts_in_many_languages_a_third_without_anything() -> None:
    assert len(TEXTS) >= 500
    assert len({each.language for each in TEXTS}) >= 10
    assert 0.25 <= len([each for each in TEXTS if not each.spans]) / len(TEXTS) <= 0.4


def test_every_label_stands_in_its_text() -> None:
    assert KNOWN == {kind for each in TEXTS for kind, _ in each.spans}
    for each in TEXTS:
        for _, said in each.spans:
            assert said in each.text


def test_no_text_stands_there_twice() -> None:
    assert len(TEXTS) == len({each.text for each in TEXTS})


def test_a_score_counts_spans() -> None:
    texts = [
        Labelled("en", "a@example.org or b@example.org", (("email", "a@example.org"),)),
        Labelled("en", "c at example.org", (("email", "c at example.org"),), note="spelled out"),
        Labelled("en", "nothing", ()),
    ]
    score = scored("email", scan_for("pii", "email"), frozenset({"email"}), texts)

    assert (2, 1, 1, 1) == (score.labelled, score.found, score.exact, score.wrong)
    assert (0.5, 0.5) == (score.precision, score.recall)
    assert (("spelled out",), (texts[0].text,)) == (score.missed, score.wrongly)


def test_a_stream_is_put_together_as_a_client_does() -> None:
    scan = scan_for("pii", "email")

    for bytewise in (False, True):
        assert "to [EMAIL], é" == streamed(scan, ["to jan", "e@example", ".org, é"], bytewise=bytewise)


@pytest.mark.parametrize("kind", ["pii", "secrets"])
def test_no_cut_of_some_labelled_texts_leaks(kind: str) -> None:
    """All of them are tried by the benchmark."""
    scan = scan_for(kind)
    for each in [each for each in TEXTS if each.spans][::25]:
        tried, failed = leaks(scan, each.text)
        assert len(each.text) + 1 == tried
        assert 0 == failed, each.text


def test_prose_has_nothing_to_be_found() -> None:
    text = prose(TEXTS, random.Random(1), 2000)
    assert len(text.encode()) >= 2000
    assert [] == matches(scan_for("pii", "email", "card", "iban"), text)


def test_a_place_is_where_a_span_stands() -> None:
    assert (3, 5) == place("ab cd", "cd")


def test_a_run_reports_precision_recall_leaks_and_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "read_texts", lambda: TEXTS[::20])
    report = run(argparse.Namespace(seed=1, seconds=0.001))

    assert ["cuts at which", "precision of", "recall of", "precision of", "recall of"] == [
        " ".join(bar.what.split()[: 3 if bar.what.startswith("cuts") else 2]) for bar in report.bars
    ]
    assert report.bars[0].is_met
    assert 3 == len(report.tables)
    assert 0 == report.figures["failed"]
