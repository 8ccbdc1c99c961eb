"""Skein's AppMaster protocol: messages, methods, and a handler for servers.

It is described by its wire format, so that containers do not need Skein. The messages are in a
separate pool, so that Skein's own messages with the same names can be loaded too. Source:
https://github.com/jcrist/skein/blob/main/java/src/main/proto/skein.proto
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from tfapp.frozen import frozen

SERVICE = "skein.AppMaster"

_MESSAGES = """
Empty:
Resources: memory int32, vcores int32, gpus int64, fpgas int64
Url: scheme string, host string, port int32, file string
File: source Url, type Type, visibility Visibility, size int64, timestamp int64
Service: instances int32, node_label string, nodes string*, racks string*, relax_locality bool, max_restarts int32, allow_failures bool, resources Resources, files File{}, env string{}, script string, depends string*
Acls: enable bool, view_users string*, view_groups string*, modify_users string*, modify_groups string*, ui_users string*
Security: cert/cert_file File, cert/cert_bytes bytes, key/key_file File, key/key_bytes bytes
Master: log_config File, log_level Log.Level, security Security, resources Resources, files File{}, env string{}, script string
ApplicationSpec: name string, queue string, user string, node_label string, max_attempts int32, tags string*, file_systems string*, acls Acls, master Master, services Service{}
Container: service_name string, instance int32, state State, yarn_container_id string, yarn_node_http_address string, start_time int64, finish_time int64, exit_message string
ShutdownRequest: final_status FinalStatus.Type, diagnostics string
KeyValue: key string, value bytes, owner ContainerInstance
GetRangeRequest: start string, end string, result_type ResultType
GetRangeResponse: count int32, result_type GetRangeRequest.ResultType, result KeyValue*
PutKeyRequest: key string, value bytes, owner ContainerInstance, ignore_value bool, ignore_owner bool, return_previous bool
PutKeyResponse: return_previous bool, previous KeyValue
DeleteRangeRequest: start string, end string, result_type ResultType
DeleteRangeResponse: count int32, result_type DeleteRangeRequest.ResultType, result KeyValue*
Condition: key string, operator Operator, field Field, rhs/value bytes, rhs/owner ContainerInstance
OpRequest: request/get_range GetRangeRequest, request/put_key PutKeyRequest, request/delete_range DeleteRangeRequest
OpResponse: response/get_range GetRangeResponse, response/put_key PutKeyResponse, response/delete_range DeleteRangeResponse
TransactionRequest: condition Condition*, on_success OpRequest*, on_failure OpRequest*
TransactionResponse: succeeded bool, result OpResponse*
WatchCreateRequest: start string, end string, event_type Type
WatchCancelRequest: watch_id int32
WatchRequest: request/create WatchCreateRequest, request/cancel WatchCancelRequest
WatchResponse: type Type, watch_id int32, event KeyValue*
ContainerInstance: service_name string, instance int32
ContainersRequest: states Container.State*, services string*
ContainersResponse: containers Container*
ScaleRequest: service_name string, count int32, delta int32
AddContainerRequest: service_name string, env string{}
SetProgressRequest: progress float
Proxy: route string, link_name string, target string
RemoveProxyRequest: route string
UIInfoRequest:
UIInfoResponse: ui_address string*, proxy_prefix string
GetProxiesRequest:
GetProxiesResponse: proxy Proxy*
"""  # noqa: E501

_ENUMS = """
FinalStatus Type: UNDEFINED SUCCEEDED FAILED KILLED
Log Level: INFO ALL TRACE DEBUG WARN ERROR FATAL OFF
File Type: FILE ARCHIVE
File Visibility: PUBLIC PRIVATE APPLICATION
Container State: WAITING REQUESTED RUNNING SUCCEEDED FAILED KILLED
GetRangeRequest ResultType: ITEMS KEYS NONE
DeleteRangeRequest ResultType: NONE ITEMS KEYS
Condition Operator: EQUAL NOT_EQUAL LESS LESS_EQUAL GREATER GREATER_EQUAL
Condition Field: VALUE OWNER
WatchCreateRequest Type: ALL PUT DELETE
WatchResponse Type: CREATE CANCEL PUT DELETE
"""

_CALLS = """
shutdown ShutdownRequest Empty
GetRange GetRangeRequest GetRangeResponse
PutKey PutKeyRequest PutKeyResponse
DeleteRange DeleteRangeRequest DeleteRangeResponse
Transaction TransactionRequest TransactionResponse
Watch WatchRequest WatchResponse
getApplicationSpec Empty ApplicationSpec
getContainers ContainersRequest ContainersResponse
killContainer ContainerInstance Empty
scale ScaleRequest ContainersResponse
addContainer AddContainerRequest Container
SetProgress SetProgressRequest Empty
AddProxy Proxy Empty
RemoveProxy RemoveProxyRequest Empty
UiInfo UIInfoRequest UIInfoResponse
GetProxies GetProxiesRequest GetProxiesResponse
"""

_Field = descriptor_pb2.FieldDescriptorProto


def message_classes(package: str, described: str, enums: str = "") -> SimpleNamespace:
    """The classes of messages, by name. `described`: a line for each, "Message: field type, ...",
    in the order of their numbers, "-" for a number that is not read. `type*` is a list, `type{}` a
    map from strings, `name/field` a member of the oneof `name`. `enums`: a line for each, the
    message that it is in, its name, and its values from 0 on."""
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package}.proto", package=package, syntax="proto3"
    )
    found: dict[str, Any] = {}
    for line in described.strip().split("\n"):
        name, _, fields = line.partition(":")
        found[name] = message = file.message_type.add(name=name)
        for number, field in enumerate(filter(None, fields.split(",")), start=1):
            if field.strip() != "-":
                _add_field(message, number, *field.split())
    for line in enums.strip().splitlines():
        place, _, values = line.partition(":")
        name, enum = place.split()
        if name not in found:
            found[name] = file.message_type.add(name=name)
        named = found[name].enum_type.add(name=enum)
        for number, value in enumerate(values.split()):
            named.value.add(name=value, number=number)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    # The first name since protobuf 4.22, the second until then.
    make = getattr(message_factory, "GetMessageClass", None)
    make = make or message_factory.MessageFactory(pool).GetPrototype
    types = pool.FindFileByName(file.name).message_types_by_name
    return SimpleNamespace(**{name: make(kind) for name, kind in types.items()})


def parsed(kind: Any, data: bytes) -> Any:
    """The message of this class in `data`. ValueError if it is none."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise ValueError(str(error)) from None


def _add_field(message: Any, number: int, name: str, kind: str) -> None:
    oneof, _, name = name.rpartition("/")
    field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
    if kind.endswith(("*", "{}")):
        field.label = _Field.LABEL_REPEATED
    if oneof:
        if oneof not in [known.name for known in message.oneof_decl]:
            message.oneof_decl.add(name=oneof)
        field.oneof_index = len(message.oneof_decl) - 1
    if kind.endswith("{}"):
        entry = message.nested_type.add(name=f"{name.title()}Entry")
        entry.options.map_entry = True
        _add_field(entry, 1, "key", "string")
        _add_field(entry, 2, "value", kind[:-2])
        kind = entry.name
    kind = kind.rstrip("*")
    if kind[0].isupper():
        field.type_name = kind
    else:
        field.type = _Field.Type.Value(f"TYPE_{kind.upper()}")


messages: Any = message_classes("skein", _MESSAGES, _ENUMS)


@frozen
class Call:
    """A method of the service, and the classes of its messages."""

    name: str
    request: Any
    response: Any

    @property
    def path(self) -> str:
        return f"/{SERVICE}/{self.name}"

    @property
    def is_stream(self) -> bool:
        """Whether it streams in both directions; all other methods are unary."""
        return self.name == "Watch"


CALLS = {
    name: Call(name, getattr(messages, request), getattr(messages, response))
    for name, request, response in map(str.split, _CALLS.split("\n")[1:-1])
}


def handler(service: Any) -> grpc.GenericRpcHandler:
    """A handler for `add_generic_rpc_handlers` of a gRPC server. Each call is answered by the
    method of `service` with the same name."""
    return grpc.method_handlers_generic_handler(
        SERVICE,
        {
            call.name: (
                grpc.stream_stream_rpc_method_handler
                if call.is_stream
                else grpc.unary_unary_rpc_method_handler
            )(
                getattr(service, call.name),
                request_deserializer=call.request.FromString,
                response_serializer=call.response.SerializeToString,
            )
            for call in CALLS.values()
        },
    )
