"""The bytes are those of Envoy's own description of the messages, written with the package xds-protos 1.85.0."""

from google.protobuf import struct_pb2

from gateway.picker import wire

REQUEST = bytes.fromhex(
    "12120a0e0a0c0a053a706174681a032f7631180142320a300a14656e766f792e6c622e7375627365745f68696e7412180a160a0178"
    "1211320f0a0d1a0b31302e302e302e313a38304a150a016112100a0e0a0769676e6f72656412031a01315a06080410021801"
)
HEAD = bytes.fromhex(
    "0a150a13120f0a0a0a060a016b1a01761802120178280142240a220a08656e766f792e6c6212162a140a120a016b120d1a0b31302e"
    "302e302e313a3830"
)
PIECE = bytes.fromhex("220c0a0a1a081a060a0261621001")
REFUSAL = bytes.fromhex("3a0a0a0308ad0312001a0178")


def test_a_request_of_envoy_is_read() -> None:
    """Also with fields that the picker does not know: attributes, and a flag of the protocol."""
    message = wire.ProcessingRequest.FromString(REQUEST)
    values = message.metadata_context.filter_metadata["envoy.lb.subset_hint"].fields["x"].list_value.values

    assert "request_headers" == message.WhichOneof("request")
    assert [(":path", b"/v1")] == [(each.key, each.raw_value) for each in message.request_headers.headers.headers]
    assert (True, wire.FULL_DUPLEX_STREAMED, wire.BUFFERED) == (
        message.request_headers.end_of_stream,
        message.protocol_config.request_body_mode,
        message.protocol_config.response_body_mode,
    )
    assert ["10.0.0.1:80"] == [each.string_value for each in values]


def test_answers_are_written_as_envoy_reads_them() -> None:
    metadata = struct_pb2.Struct()
    metadata.update({"envoy.lb": {"k": "10.0.0.1:80"}})
    header = wire.HeaderValue(key="k", raw_value=b"v")
    option = wire.HeaderValueOption(header=header, append_action=wire.OVERWRITE_IF_EXISTS_OR_ADD)
    mutation = wire.HeaderMutation(set_headers=[option], remove_headers=["x"])
    common = wire.CommonResponse(header_mutation=mutation, clear_route_cache=True)
    head = wire.ProcessingResponse(request_headers=wire.HeadersResponse(response=common), dynamic_metadata=metadata)
    body = wire.BodyMutation(streamed_response=wire.StreamedBodyResponse(body=b"ab", end_of_stream=True))
    piece = wire.ProcessingResponse(response_body=wire.BodyResponse(response=wire.CommonResponse(body_mutation=body)))
    immediate = wire.ImmediateResponse(status=wire.HttpStatus(code=429), headers=wire.HeaderMutation(), body=b"x")

    assert HEAD == head.SerializeToString(deterministic=True)
    assert PIECE == piece.SerializeToString()
    assert REFUSAL == wire.ProcessingResponse(immediate_response=immediate).SerializeToString()
