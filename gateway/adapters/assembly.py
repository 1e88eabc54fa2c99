"""Adapters from settings."""

from cache_index import WorkerId
from gateway.adapters.adapter import Adapter
from gateway.adapters.shelf import Patience, Subject
from gateway.settings import AdaptersSettings, ModelSettings
from routing.fleet import Fleet


def subject_of(settings: ModelSettings, fleet: Fleet) -> Subject | None:
    """The adapter that the model of *settings* is, on the workers of *fleet*; None: it is a model of its own."""
    base, name, told = settings.adapter_base, settings.adapter_name, settings.adapter
    if base is None or name is None:
        return None
    adapter = Adapter(name, base)
    if told is not None:
        adapter = Adapter(name, base, told.path, told.load_on_demand, told.most_per_worker)
    return Subject(settings.name, adapter, fleet, {WorkerId(worker.id): worker.url for worker in settings.workers})


def patience_of(settings: AdaptersSettings) -> Patience:
    return Patience(load_s=settings.load_s, load_timeout_s=settings.load_timeout_s, retry_s=settings.retry_s)
