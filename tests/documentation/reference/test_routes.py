from documentation.reference.routes import page


def test_an_endpoint_of_workers_shows_its_body_and_errors() -> None:
    assert "| `POST /v1/messages/count_tokens` | Count the tokens of a conversation" in page()
    assert "| `POST /v1/audio/transcriptions` | Transcribe speech. | form | OpenAI's |" in page()


def test_a_route_that_is_refused_says_what_to_use_instead() -> None:
    assert "| `GET /load` | refused | /metrics reports the load of every worker |" in page()


def test_fields_of_engines_and_prefixes_of_headers_are_listed() -> None:
    assert "`kv_transfer_params`" in page()
    assert "`x-data-parallel-`" in page()
