"""The definition is Skein's, message by message and call by call."""

from concurrent import futures

import grpc
from google.protobuf import descriptor_pb2
from skein import proto
from skein.proto import skein_pb2, skein_pb2_grpc

from tfapp.protocol.definition import CALLS, handler, messages


def described(message) -> str:
    text = descriptor_pb2.DescriptorProto()
    message.DESCRIPTOR.CopyToProto(text)
    return str(text)


def test_every_message_is_as_skein_has_it():
    ours = vars(messages)
    assert {name: described(made) for name, made in ours.items()} == {
        name: described(getattr(skein_pb2, name)) for name in ours
    }


def test_every_call_is_as_skein_has_it():
    service = skein_pb2.DESCRIPTOR.services_by_name["AppMaster"]
    assert {
        method.name: (method.input_type.name, method.output_type.name) for method in service.methods
    } == {
        call.name: (call.request.DESCRIPTOR.name, call.response.DESCRIPTOR.name)
        for call in CALLS.values()
    }


def test_a_server_answers_skeins_own_stub():
    class Master:
        def __getattr__(self, name):
            return lambda request, context: CALLS[name].response()

        def addContainer(self, request, context):
            return messages.Container(service_name=request.service_name, state="RUNNING")

        def Watch(self, requests, context):
            for request in requests:
                yield messages.WatchResponse(type="PUT", event=[{"key": request.create.start}])

    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((handler(Master()),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = skein_pb2_grpc.AppMasterStub(channel)
            added = stub.addContainer(proto.AddContainerRequest(service_name="w"), timeout=120)
            assert added == proto.Container(service_name="w", state="RUNNING")
            create = proto.WatchCreateRequest(start="key")
            answers = stub.Watch(iter([proto.WatchRequest(create=create)]), timeout=120)
            assert [answer.event[0].key for answer in answers] == ["key"]
            assert stub.UiInfo(proto.UIInfoRequest(), timeout=120) == proto.UIInfoResponse()
    finally:
        server.stop(None)
