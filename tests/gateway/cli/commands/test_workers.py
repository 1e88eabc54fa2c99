from tests.gateway.cli.commands.terminal import Terminal, terminal

__all__ = ["terminal"]

URL = "http://10.0.0.7:8000"


def test_a_worker_is_added_listed_and_removed(terminal: Terminal) -> None:
    """In the store: gateways that run see it within a second, those that start have it."""
    added = terminal.there("workers", "add", URL, "--model", "tiny", "--id", "w7", "--json").json
    (listed, own) = terminal.there("workers", "list", "--json").json
    removed = terminal.there("workers", "remove", "w7", "--model", "tiny").out

    assert ("tiny", URL, "w7", "api") == (added["model"], added["url"], added["worker"], added["source"])
    assert added == own
    assert ("settings", "unknown") == (listed["source"], listed["state"])
    assert "The worker w7 of the model tiny is removed.\n" == removed
    assert ["settings"] == [worker["source"] for worker in terminal.there("workers", "list", "--json").json]


def test_workers_are_listed_for_people(terminal: Terminal) -> None:
    terminal.there("workers", "add", URL, "--model", "tiny", "--id", "w7")

    head, _, own = terminal.there("workers", "list", "--model", "tiny").rows
    assert ["MODEL", "WORKER", "URL", "SOURCE", "STATE", "IN", "FLIGHT", "REASON"] == head
    assert ["tiny", "w7", URL, "api", "unknown", "0", "-"] == own
    assert 1 == len(terminal.there("workers", "list", "--model", "big").rows)


def test_both_are_in_the_audit_log(terminal: Terminal) -> None:
    terminal.there("workers", "add", URL, "--model", "tiny", "--id", "w7")
    terminal.there("workers", "remove", "w7", "--model", "tiny")

    assert [("local", "delete", "worker", "w7"), ("local", "create", "worker", "w7")] == [
        (entry["who"], entry["action"], entry["kind"], entry["id"]) for entry in terminal.there("audit", "--json").json
    ]


def test_what_cannot_be_done_is_a_sentence(terminal: Terminal) -> None:
    (listed,) = terminal.there("workers", "list", "--json").json

    assert (1, "The model 'big' is not configured; give its name, not an alias.\n") == terminal.fails(
        "workers", "add", URL, "--model", "big"
    )
    assert (
        1,
        f"The worker '{listed['worker']}' of the model 'tiny' is listed in the configuration (models[].workers): "
        "it can be removed only there.\n",
    ) == terminal.fails("workers", "remove", listed["worker"], "--model", "tiny")
    assert 2 == terminal.fails("workers", "add", "ftp://x", "--model", "tiny")[0]
