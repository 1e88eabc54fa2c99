from simulator.journal import Journal, JournalEntry


def test_an_entry_shows_what_was_sent() -> None:
    """Headers as pairs, the body whole and as a hash."""
    entry = JournalEntry(path="/v1/completions", headers=[(b"accept", b"*/*")], at=1.5, id="cmpl-1", body=b"{}")

    shown = entry.to_json()
    assert [["accept", "*/*"]] == shown["headers"]
    assert "e30=" == shown["body"]
    assert "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" == shown["body_sha256"]
    assert ("running", 1.5, None) == (shown["state"], shown["at"], shown["ended_at"])


def test_only_the_last_entries_are_kept() -> None:
    """The oldest go first."""
    journal = Journal(limit=2)
    for number in range(3):
        journal.add(JournalEntry(path=str(number), headers=[], at=0))

    assert ["1", "2"] == [entry["path"] for entry in journal.to_json()]
    journal.clear()
    assert [] == journal.to_json()
