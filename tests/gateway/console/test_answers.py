"""Facts about the headers of the console's responses."""

from gateway.console import answers
from gateway.console.static_files import StaticFile


def test_pages_are_protected_and_not_kept() -> None:
    response = answers.page("<p>hello</p>", 403)

    assert (403, b"<p>hello</p>", "no-store") == (
        response.status_code,
        response.body,
        response.headers["cache-control"],
    )
    assert answers.HEADERS.items() <= dict(response.headers).items()


def test_the_policy_has_no_exceptions() -> None:
    policy = answers.HEADERS["content-security-policy"]

    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


def test_files_are_kept() -> None:
    response = answers.static(StaticFile(b"body {}", "text/css; charset=utf-8"))

    assert "public, max-age=31536000, immutable" == response.headers["cache-control"]
    assert "text/css; charset=utf-8" == response.headers["content-type"]


def test_the_cookie_is_for_this_host_and_for_no_script() -> None:
    response = answers.with_session(answers.redirect("/console"), "token")

    assert (303, "/console") == (response.status_code, response.headers["location"])
    expected = "__Host-warmgate-console=token; HttpOnly; Path=/; SameSite=strict; Secure"
    assert expected == response.headers["set-cookie"]


def test_logging_out_deletes_the_cookie() -> None:
    response = answers.without_session(answers.redirect("/console/login"))

    assert response.headers["set-cookie"].startswith('__Host-warmgate-console=""; expires=')
