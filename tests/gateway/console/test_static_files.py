"""Facts about the files that browsers keep."""

import hashlib

from gateway.console.static_files import NAMES, StaticFiles


def test_an_address_has_the_digest_of_the_content() -> None:
    files = StaticFiles()
    for name in NAMES:
        last = files.addresses[name].removeprefix("/console/static/")
        file = files.find(last)

        assert file is not None
        assert last.split(".")[1] == hashlib.sha256(file.content).hexdigest()[:16]


def test_other_addresses_lead_nowhere() -> None:
    files = StaticFiles()

    assert [None, None, None] == [files.find(name) for name in ("console.css", "../site.py", "")]


def test_nothing_is_loaded_from_elsewhere() -> None:
    """Neither the style nor the script contains an address of another host."""
    files = StaticFiles()
    for name in ("console.css", "console.js"):
        file = files.find(files.addresses[name].removeprefix("/console/static/"))

        assert file is not None
        assert b"//" not in file.content.replace(b"// ", b"")
