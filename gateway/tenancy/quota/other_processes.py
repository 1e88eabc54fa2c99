"""Interface to the other processes of one gateway, which count the same limits and write the same file."""

from collections.abc import Sequence
from typing import Protocol

from gateway.tenancy.quota.meter import Meter
from gateway.tenancy.quota.meters import MeterState


class OtherProcesses(Protocol):
    """Other processes that use the meters of this process."""

    @property
    def have_ended(self) -> bool:
        """Whether no other process counts limits now."""
        ...

    def refresh(self, meters: Sequence[Meter]) -> None:
        """Update *meters* with what all processes have counted."""
        ...

    def publish_checkpoints(self, meters: Sequence[Meter]) -> None:
        """Show the checkpoints of *meters*, which are in the file now, to all processes."""
        ...

    def begin_writing(self) -> bool:
        """Become the only process that writes checkpoints. Return whether no other process is."""
        ...

    def end_writing(self) -> None: ...

    def exact(self, written: Sequence[MeterState]) -> list[MeterState]:
        """Return the exact states of those limits in *written* that this process has not used."""
        ...

    def free_unused(self, now: float) -> bool:
        """Free the memory of some limits that are unused at *now*. Return whether there may be more of them."""
        ...

    def leave(self) -> None:
        """Tell the other processes that this process counts no limits any more."""
        ...


class NoOtherProcesses:
    """Implementation for a gateway with a single process."""

    @property
    def have_ended(self) -> bool:
        return True

    def refresh(self, meters: Sequence[Meter]) -> None:
        """Do nothing, because the meters are always up to date."""

    def publish_checkpoints(self, meters: Sequence[Meter]) -> None:
        """Do nothing, because no one else reads them."""

    def begin_writing(self) -> bool:
        return True

    def end_writing(self) -> None:
        """Do nothing, because no one else writes."""

    def exact(self, written: Sequence[MeterState]) -> list[MeterState]:  # noqa: ARG002
        return []

    def free_unused(self, now: float) -> bool:  # noqa: ARG002
        return False

    def leave(self) -> None:
        """Do nothing, because no one is left."""
