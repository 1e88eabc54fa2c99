"""Where workers of a model are found, beside those that the settings list."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gateway.discovery.file import read_workers
from gateway.settings import DnsSettings, ModelSettings, PodsSettings, ServiceSettings

SourceKind = Literal["workers_file", "service", "pods", "dns"]


@dataclass(frozen=True, slots=True)
class Source:
    """One place to look; equal where a search can go on."""

    model: str
    where: str | ServiceSettings | PodsSettings | DnsSettings
    """As the settings have it; a text is the name of a file."""

    @property
    def kind(self) -> SourceKind:
        """The setting that names it."""
        match self.where:
            case ServiceSettings():
                return "service"
            case PodsSettings():
                return "pods"
            case DnsSettings():
                return "dns"
            case _:
                return "workers_file"

    def check(self) -> None:
        """Look into a file that is there already; what else there is cannot be known before it is asked.

        Raises:
            SettingsError: a sentence for every fault of the file.
        """
        if isinstance(self.where, str) and (path := Path(self.where)).exists():
            read_workers(path)


def sources_of(model: ModelSettings) -> tuple[Source, ...]:
    """All of *model*; where two find the same address, the first one counts."""
    given = (model.workers_file, model.service, model.pods, model.dns)
    return tuple(Source(model.name, where) for where in given if where is not None)
