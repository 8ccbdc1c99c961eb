"""A master just large enough for the calls of tfapp.protocol: `python small_master.py CERT KEY`
prints its port and serves until its standard input ends, with whoever started it. It is built on
Skein's own messages. Its switches are keys: `end-streams` ends all watches, `fail` (a status and a
number, such as `UNKNOWN 2`) is how the next calls end."""

import os
import queue
import sys
import threading
from concurrent import futures
from pathlib import Path

import grpc

from tfapp.skein_library import skein

proto = skein.proto
skein_pb2, skein_pb2_grpc = proto.skein_pb2, proto.skein_pb2_grpc


class Master(skein_pb2_grpc.AppMasterServicer):
    def __init__(self):
        self.lock = threading.Lock()
        self.values = {}
        self.watches = []
        self.containers = []
        self.calls = []
        self.failures = []

    def fail(self, context):
        """Ends a call as `fail` said."""
        if self.failures:
            context.abort(self.failures.pop(), "Stream removed")

    def GetRange(self, request, context):
        self.fail(context)
        found = [self.values[key] for key in sorted(self.values) if _inside(key, request)]
        return proto.GetRangeResponse(count=len(found), result=found, result_type="ITEMS")

    def PutKey(self, request, context):
        if request.HasField("owner") and request.owner.service_name == "ended":
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "Container has already completed")
        self.fail(context)
        with self.lock:
            if request.key == "fail":
                status, count = request.value.decode().split()
                self.failures = [grpc.StatusCode[status]] * int(count)
                return proto.PutKeyResponse()
            if request.key == "end-streams":
                for _, _, events in self.watches:
                    events.put(None)
                return proto.PutKeyResponse()
            owner = {"owner": request.owner} if request.HasField("owner") else {}
            entry = proto.KeyValue(key=request.key, value=request.value, **owner)
            self.values[request.key] = entry
            self.tell("PUT", entry)
        return proto.PutKeyResponse()

    def DeleteRange(self, request, context):
        with self.lock:
            gone = [key for key in self.values if _inside(key, request)]
            for key in gone:
                del self.values[key]
                self.tell("DELETE", proto.KeyValue(key=key))
        return proto.DeleteRangeResponse(count=len(gone))

    def Transaction(self, request, context):
        answers = []
        for operation in request.on_success:
            name = operation.WhichOneof("request")
            method = {"get_range": self.GetRange, "put_key": self.PutKey}[name]
            answers.append(proto.OpResponse(**{name: method(getattr(operation, name), context)}))
        return proto.TransactionResponse(succeeded=True, result=answers)

    def tell(self, kind, entry):
        for watch_id, span, events in self.watches:
            if _inside(entry.key, span):
                events.put(proto.WatchResponse(watch_id=watch_id, type=kind, event=[entry]))

    def Watch(self, requests, context):
        self.fail(context)
        events: queue.Queue = queue.Queue()
        context.add_callback(lambda: events.put(None))  # its thread ends with the call

        def subscribe():
            for request in requests:
                with self.lock:
                    watch_id = len(self.watches)
                    events.put(proto.WatchResponse(watch_id=watch_id, type="CREATE"))
                    self.watches.append((watch_id, request.create, events))

        threading.Thread(target=_quietly(subscribe), daemon=True).start()
        yield from iter(events.get, None)
        if context.is_active():
            context.abort(grpc.StatusCode.UNAVAILABLE, "the master ends")

    def addContainer(self, request, context):
        if request.service_name != "worker":
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "Unknown service 'nobody'")
        container = proto.Container(
            service_name="worker",
            instance=len(self.containers),
            state="RUNNING",
            yarn_node_http_address="127.0.0.1:8042",
            exit_message=request.env["TFAPP_INSTANCE"],
        )
        self.containers.append(container)
        self.fail(context)
        return container

    def getContainers(self, request, context):
        return skein_pb2.ContainersResponse(containers=self.containers)

    def killContainer(self, request, context):
        self.calls.append(request)
        return proto.Empty()

    def getApplicationSpec(self, request, context):
        return proto.ApplicationSpec(queue="nightly")

    def SetProgress(self, request, context):
        return proto.Empty()

    def AddProxy(self, request, context):
        return proto.Empty()

    def UiInfo(self, request, context):
        return proto.UIInfoResponse(ui_address=["http://127.0.0.1:1/"], proxy_prefix="pages")

    def shutdown(self, request, context):
        self.PutKey(proto.PutKeyRequest(key="shutdown", value=str(request).encode()), context)
        return proto.Empty()


def _inside(key, span):
    return key >= span.start and (not span.end or key < span.end)


def _quietly(function):
    def run():
        try:
            function()
        except Exception as error:  # grpc raises a bare Exception when the client has gone
            print(error, file=sys.stderr)

    return run


def main(certificate: str, key: str) -> None:
    cert = Path(certificate).read_bytes()
    credentials = grpc.ssl_server_credentials([(Path(key).read_bytes(), cert)], cert, True)
    server = grpc.server(futures.ThreadPoolExecutor(50))
    skein_pb2_grpc.add_AppMasterServicer_to_server(Master(), server)
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    print(port, flush=True)
    sys.stdin.read()
    os._exit(0)  # calls that are being served would hold it


if __name__ == "__main__":
    main(*sys.argv[1:])
