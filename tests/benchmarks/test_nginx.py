from benchmarks.nginx import CONFIG


def test_all_workers_stand_behind_it() -> None:
    """In the same upstream, with connections that are kept."""
    text = CONFIG.format(workers="server 127.0.0.1:1; server 127.0.0.1:2;", requests=11, streams=12)

    assert "upstream worker { server 127.0.0.1:1; server 127.0.0.1:2; keepalive 64;" in text
    assert "listen 127.0.0.1:11; location / { proxy_pass http://worker; }" in text
    assert "listen 127.0.0.1:12; location / { proxy_pass http://worker; proxy_buffering off; }" in text
