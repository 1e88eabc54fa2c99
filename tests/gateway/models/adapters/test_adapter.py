"""An adapter as the settings have it."""

from gateway.models.adapters.adapter import Adapter


def test_only_what_may_be_loaded_and_can_be_found_is_loadable() -> None:
    assert Adapter("poet", "tiny", "/poet", load_on_demand=True).is_loadable
    assert not Adapter("poet", "tiny", "/poet").is_loadable
    assert not Adapter("poet", "tiny", load_on_demand=True).is_loadable
