"""Page docs/reference/metrics.md: every metric with its type, labels and meaning."""

from collections.abc import Iterable, Mapping

from prometheus_client.core import Metric

from documentation.reference import markdown
from documentation.reference.example_gateway import families
from documentation.reference.metric_meanings import MEANINGS

_INTRODUCTION = """\
This page lists for operators every metric that a gateway exposes at `GET /metrics`, in the text format of Prometheus.

The label `model` is the configured name of the model, or `unknown` for a model that is not served. The label `worker`
is the id of the worker. Callers cannot create values of labels, so the usage of keys and end users is in the
[ledger](../concepts/quotas-and-fairness.md#ledger) and not in metrics. A histogram has the series `_bucket`, `_sum` and
`_count`.

The Helm chart includes dashboards for Grafana and alerts for Prometheus. The dashboards and alerts also work
without the chart: [deploy/README.md](../../deploy/README.md#watch-it)."""


def page() -> str:
    by_name = {_name(family): family for family in families()}
    sections = (
        f"## {title}\n\n{markdown.table(('metric', 'type', 'labels', 'meaning'), _rows(meanings, by_name))}"
        for title, meanings in MEANINGS.items()
    )
    return markdown.page("Metrics", _INTRODUCTION, *sections)


def undocumented() -> set[str]:
    """Return the names of metrics that have no meaning in `MEANINGS`."""
    named = {name for meanings in MEANINGS.values() for name in meanings}
    return {_name(family) for family in families()} - named


def _rows(meanings: Mapping[str, str], families: Mapping[str, Metric]) -> Iterable[tuple[str, ...]]:
    for name, meaning in meanings.items():
        family = families[name]
        labels: Iterable[str] = family._labelnames  # type: ignore[attr-defined]  # noqa: SLF001 - has no public name
        yield (markdown.code(name), family.type, ", ".join(labels), markdown.sentence(meaning))


def _name(family: Metric) -> str:
    """Return the name of *family* in the exposition, where counters end in ``_total``."""
    return f"{family.name}_total" if family.type == "counter" else family.name
