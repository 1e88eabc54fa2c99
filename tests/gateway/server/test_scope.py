from gateway.server.scope import ScopeBuilder


def builder() -> ScopeBuilder:
    return ScopeBuilder(("10.0.0.1", 5000), ("10.0.0.2", 8000), "http", {"started": True})


def test_the_scope_of_the_line_before_is_copied() -> None:
    """Only if the head begins with the same line."""
    scopes = builder()
    built = scopes.build(b"GET", b"/a?b", "1.1")
    assert built is not None
    again = scopes.repeated(b"GET /a?b HTTP/1.1\r\nhost: a\r\n\r\n")

    assert built[0] == again
    assert again is not built[0]
    assert scopes.repeated(b"GET /a HTTP/1.1\r\n") is None
    assert scopes.repeated(b"GET /a?b HTTP/1.0\r\n") is None


def test_long_and_absolute_targets_are_not_kept() -> None:
    """A long one would stay in memory for as long as its connection; an absolute one changes the headers."""
    scopes = builder()

    for target in (b"/" + b"a" * 256, b"http://a/b", b"*"):
        assert scopes.build(b"GET", target, "1.1") is not None
        assert scopes.repeated(b"GET " + target + b" HTTP/1.1\r\n") is None


def test_an_absolute_target_names_its_host() -> None:
    """Only if it is an HTTP URL."""
    built = builder().build(b"GET", b"http://a:80/b", "1.1")

    assert built is not None
    assert ("/b", b"a:80") == (built[0]["path"], built[1])
    assert builder().build(b"GET", b"ftp://a/b", "1.1") is None


def test_each_scope_has_its_own_state() -> None:
    scopes = builder()

    first, second = scopes.complete({}, []), scopes.complete({}, [])

    assert {"started": True} == first["state"] == second["state"]
    assert first["state"] is not second["state"]
