from tests.gateway.cli.commands.terminal import Terminal, terminal

__all__ = ["terminal"]


def test_every_change_is_reported_the_latest_first(terminal: Terminal) -> None:
    terminal.there("team", "create", "blue", "--weight", "2")
    terminal.there("team", "update", "blue", "--weight", "3", "--limit", "concurrent=5")

    rows = terminal.there("audit").rows
    assert ["TIME", "WHO", "ROLE", "ACTION", "KIND", "ID", "CHANGED"] == rows[0]
    assert [
        ["local", "owner", "update", "team", "blue", "weight=3,", "limits=concurrent=5"],
        ["local", "owner", "create", "team", "blue", "-"],
    ] == [row[1:] for row in rows[1:]]


def test_it_can_be_cut_short(terminal: Terminal) -> None:
    for name in ("a", "b", "c"):
        terminal.there("team", "create", name)

    entries = terminal.there("audit", "--most", "2", "--json").json
    assert ["c", "b"] == [entry["id"] for entry in entries]
    assert ("team", None, "c") == (entries[0]["kind"], entries[0]["before"], entries[0]["after"]["name"])
