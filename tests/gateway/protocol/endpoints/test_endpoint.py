import json

from gateway.protocol.body import parse_chat
from gateway.protocol.endpoints.endpoint import Endpoint, json_upstream_body, keeps_no_response, read_as_json
from gateway.protocol.endpoints.faults import ANTHROPIC
from gateway.protocol.errors import ReplyBroken
from gateway.protocol.sse import ChunkObserver

JSON = b"application/json"
CHAT = b'{"model": "tiny", "messages":[{"role":"user","content":"Hi"}], "temperature":1.50}'
STREAMED = CHAT.replace(b', "temp', b', "stream":true, "temp')


class TestUpstreamBody:
    def test_what_need_not_change_goes_on_as_it_came(self) -> None:
        """The very same object."""
        assert CHAT is json_upstream_body(CHAT, JSON, parse_chat(CHAT), "tiny")

    def test_an_alias_becomes_the_name_of_the_worker(self) -> None:
        """Every other byte stays."""
        assert CHAT.replace(b'"tiny"', b'"a/b"') == json_upstream_body(CHAT, JSON, parse_chat(CHAT), "a/b")

    def test_a_stream_that_asks_for_no_usage_is_made_to(self) -> None:
        """It is taken out on the way back."""
        sent = json.loads(json_upstream_body(STREAMED, JSON, parse_chat(STREAMED), "a/b"))

        assert ({"include_usage": True}, "a/b") == (sent["stream_options"], sent["model"])

    def test_a_stream_that_asks_for_usage_stays(self) -> None:
        """Nothing is added to what the caller said."""
        asking = STREAMED.replace(b'"stream":true', b'"stream":true,"stream_options":{"include_usage":true}')

        assert asking is json_upstream_body(asking, JSON, parse_chat(asking), "tiny")

    def test_the_session_id_of_the_caller_is_removed(self) -> None:
        """Every value of a repeated key, however the key is spelled. Other values keep their bytes."""
        named = CHAT[:-1] + rb', "session_id": "a", "\u0073ession_id" : {"b": 1}, "session_id":"c"}'
        hidden = b'{"model":"tiny","messages":[{"role":"user","content":"Hi"}],"temperature":1.50}'

        assert hidden == json_upstream_body(named, JSON, parse_chat(named), "tiny")
        assert hidden.replace(b'"tiny"', b'"a/b"') == json_upstream_body(named, JSON, parse_chat(named), "a/b")


class TestEndpoint:
    def test_an_endpoint_is_openais_unless_it_says_otherwise(self) -> None:
        """JSON in, chunks out, errors nested."""
        endpoint = Endpoint("/v1/x", read_as_json(parse_chat))

        assert "tiny" == endpoint.parse(CHAT, JSON).model
        assert isinstance(endpoint.observer(strip_usage=True), ChunkObserver)
        assert b'{"error":{"message":"cut"' in endpoint.error_body(ReplyBroken("cut"))
        assert endpoint.error_event(ReplyBroken("cut")).startswith(b'data: {"error":')
        assert b'{"error":{"message":"no","type":"t","param":null,"code":null}}' == endpoint.normalized(
            400, b'{"message":"no","type":"t","code":4}'
        )

    def test_errors_have_the_shape_of_the_api(self) -> None:
        """A request id is included if the API has a field for it."""
        endpoint = Endpoint("/v1/x", read_as_json(parse_chat), errors=ANTHROPIC)

        assert b'"request_id":"r1"' in endpoint.error_body(ReplyBroken("cut"), request_id="r1")
        assert endpoint.error_event(ReplyBroken("cut")).startswith(b"event: error\n")
        assert b'{"type":"error",' in endpoint.normalized(400, b"")

    def test_most_apis_keep_no_response(self) -> None:
        """An id in the answer is for the caller alone."""
        assert keeps_no_response(b'{"id":"chatcmpl-1"}') is None
