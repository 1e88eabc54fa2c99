"""Format of the messages of Envoy's external processing (ext_proc), as far as the picker reads and writes them.

The fields are those of ``envoy/service/ext_proc/v3/external_processor.proto`` and of the files that it imports. Fields
that are not listed are ignored. The generated code of the package xds-protos is not used, because it replaces modules
of the package opentelemetry-proto.
"""

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, struct_pb2

_PACKAGE: Final = "warmgate.ext_proc"
_FIELD: Final = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "bool": _FIELD.TYPE_BOOL,
    "bytes": _FIELD.TYPE_BYTES,
    "int": _FIELD.TYPE_INT32,  # enumerations have the same format
    "string": _FIELD.TYPE_STRING,
}
_STRUCT: Final = "google.protobuf.Struct"
_FIELDS: Final[dict[str, str]] = {
    "HeaderValue": "key=1:string value=2:string raw_value=3:bytes",
    "HeaderMap": "headers=1:*HeaderValue",
    "HeaderValueOption": "header=1:HeaderValue append_action=3:int",
    "HeaderMutation": "set_headers=1:*HeaderValueOption remove_headers=2:*string",
    "HttpHeaders": "headers=1:HeaderMap end_of_stream=3:bool",
    "HttpBody": "body=1:bytes end_of_stream=2:bool",
    "HttpTrailers": "trailers=1:HeaderMap",
    "ProtocolConfiguration": "request_body_mode=1:int response_body_mode=2:int",
    "Metadata": "filter_metadata=1:{Struct}",
    "ProcessingRequest": "request_headers=2:HttpHeaders|request response_headers=3:HttpHeaders|request "
    "request_body=4:HttpBody|request response_body=5:HttpBody|request request_trailers=6:HttpTrailers|request "
    "response_trailers=7:HttpTrailers|request metadata_context=8:Metadata protocol_config=11:ProtocolConfiguration",
    "StreamedBodyResponse": "body=1:bytes end_of_stream=2:bool",
    "BodyMutation": "body=1:bytes|mutation clear_body=2:bool|mutation "
    "streamed_response=3:StreamedBodyResponse|mutation",
    "CommonResponse": "status=1:int header_mutation=2:HeaderMutation body_mutation=3:BodyMutation "
    "clear_route_cache=5:bool",
    "HeadersResponse": "response=1:CommonResponse",
    "BodyResponse": "response=1:CommonResponse",
    "TrailersResponse": "header_mutation=1:HeaderMutation",
    "HttpStatus": "code=1:int",
    "ImmediateResponse": "status=1:HttpStatus headers=2:HeaderMutation body=3:bytes details=5:string",
    "ProcessingResponse": "request_headers=1:HeadersResponse|response response_headers=2:HeadersResponse|response "
    "request_body=3:BodyResponse|response response_body=4:BodyResponse|response "
    "request_trailers=5:TrailersResponse|response response_trailers=6:TrailersResponse|response "
    "immediate_response=7:ImmediateResponse|response dynamic_metadata=8:Struct",
}
"""Fields of each message as ``name=number:type``. A ``*`` marks a repeated field, braces mark a map from texts, and the
name after ``|`` is that of a group of which only one field is set.
"""


def _described() -> Any:
    """Return the description of all messages in the form of protobuf."""
    file = descriptor_pb2.FileDescriptorProto(
        name="warmgate/ext_proc.proto", package=_PACKAGE, syntax="proto3", dependency=[struct_pb2.DESCRIPTOR.name]
    )
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field in fields.split():
            _add_field(message, field)
    return file


def _add_field(message: Any, text: str) -> None:
    """Add the field that *text* describes to the description *message*."""
    name, _, rest = text.partition("=")
    number, _, rest = rest.partition(":")
    kind, _, group = rest.partition("|")
    field = message.field.add(name=name, number=int(number), label=_FIELD.LABEL_OPTIONAL)
    if kind.startswith("*"):
        field.label, kind = _FIELD.LABEL_REPEATED, kind[1:]
    if group:
        groups = [each.name for each in message.oneof_decl]
        if group not in groups:
            message.oneof_decl.add(name=group)
            groups.append(group)
        field.oneof_index = groups.index(group)
    if kind.startswith("{"):
        field.label = _FIELD.LABEL_REPEATED
        _set_type(field, _add_entry(message, name, kind[1:-1]))
    else:
        _set_type(field, kind)


def _add_entry(message: Any, name: str, kind: str) -> str:
    """Add the message for the entries of the map *name* with values of the type *kind*, and return its name."""
    entry = message.nested_type.add(name="".join(part.capitalize() for part in name.split("_")) + "Entry")
    entry.options.map_entry = True
    _set_type(entry.field.add(name="key", number=1, label=_FIELD.LABEL_OPTIONAL), "string")
    _set_type(entry.field.add(name="value", number=2, label=_FIELD.LABEL_OPTIONAL), kind)
    return f"{message.name}.{entry.name}"


def _set_type(field: Any, kind: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type = _FIELD.TYPE_MESSAGE
        field.type_name = f".{_STRUCT}" if kind == "Struct" else f".{_PACKAGE}.{kind}"


def _classes() -> dict[str, Any]:
    """Return the class of each message by name."""
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(_described().SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _FIELDS}


_CLASS: Final = _classes()

BodyMutation: Any = _CLASS["BodyMutation"]
BodyResponse: Any = _CLASS["BodyResponse"]
CommonResponse: Any = _CLASS["CommonResponse"]
HeaderMap: Any = _CLASS["HeaderMap"]
HeaderMutation: Any = _CLASS["HeaderMutation"]
HeaderValue: Any = _CLASS["HeaderValue"]
HeaderValueOption: Any = _CLASS["HeaderValueOption"]
HeadersResponse: Any = _CLASS["HeadersResponse"]
HttpBody: Any = _CLASS["HttpBody"]
HttpHeaders: Any = _CLASS["HttpHeaders"]
HttpStatus: Any = _CLASS["HttpStatus"]
HttpTrailers: Any = _CLASS["HttpTrailers"]
ImmediateResponse: Any = _CLASS["ImmediateResponse"]
Metadata: Any = _CLASS["Metadata"]
ProcessingRequest: Any = _CLASS["ProcessingRequest"]
ProcessingResponse: Any = _CLASS["ProcessingResponse"]
ProtocolConfiguration: Any = _CLASS["ProtocolConfiguration"]
StreamedBodyResponse: Any = _CLASS["StreamedBodyResponse"]
TrailersResponse: Any = _CLASS["TrailersResponse"]

NONE: Final = 0
STREAMED: Final = 1
BUFFERED: Final = 2
BUFFERED_PARTIAL: Final = 3
FULL_DUPLEX_STREAMED: Final = 4
"""Body modes of Envoy (``ProcessingMode.BodySendMode``)."""

APPEND_IF_EXISTS_OR_ADD: Final = 0
OVERWRITE_IF_EXISTS_OR_ADD: Final = 2
"""Actions of a changed header (``HeaderValueOption.HeaderAppendAction``)."""

STATUSES: Final = frozenset(
    {
        *(200, 201, 202, 203, 204, 205, 206, 207, 208, 226, 300, 301, 302, 303, 304, 305, 307, 308),
        *(400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417),
        *(421, 422, 423, 424, 426, 428, 429, 431, 500, 501, 502, 503, 504, 505, 506, 507, 508, 510, 511),
    }
)
"""Statuses that Envoy can answer with (``envoy/type/v3/http_status.proto``). It refuses others."""
