from gateway.settings.shapes import RequestShapesSettings


def test_nothing_is_recorded_unless_it_is_enabled() -> None:
    """An hour, in at most 64 MiB of a temporary folder, once it is."""
    settings = RequestShapesSettings()

    assert (False, None) == (settings.enabled, settings.directory)
    assert (67_108_864, 3600) == (settings.max_bytes, settings.keep_s)
