# Lets tfapp's runner ask a program that imports TensorFlow for a trace by TensorFlow's profiler. A
# thread waits at a pipe, which costs nothing, and traces when a request is there: nothing listens
# at a port, and nothing of TensorFlow is touched before. The file of memory names the pipe, and has
# the answers. tfapp.runner.profiles is the other side.
import _thread
import os
import sys
import time

NAME = "tfapp-profiles"  # tfapp.contract.profiles has it too


def serve():
    """OSError where it is not possible: then there are no traces."""
    memory = os.memfd_create(NAME)
    read, write = os.pipe()
    # A child made by fork has these files too, but not the thread.
    told = {"pipe": os.readlink("/proc/self/fd/%d" % write)}  # noqa: UP031
    _thread.start_new_thread(_serve, (read, memory, told))


def _serve(read, memory, told):
    import json

    def tell(**answer):
        data = json.dumps(dict(told, **answer)).encode()
        os.pwrite(memory, data, 0)
        os.ftruncate(memory, len(data))

    tell()
    with os.fdopen(read, "rb") as requests:
        for line in iter(requests.readline, b""):
            request = json.loads(line.decode())
            if time.time() > request["until"]:  # asked while an earlier one took its time
                continue
            try:
                tell(id=request["id"], bytes=_trace(**request["trace"]))
            except Exception as error:
                tell(id=request["id"], error="%s: %s" % (type(error).__name__, error))  # noqa: UP031


def _trace(file, seconds):
    """Writes a trace of the next `seconds` seconds to the path or URL. Returns its bytes."""
    import shutil
    import tempfile

    tensorflow = sys.modules["tensorflow"]
    profiler, files = tensorflow.profiler.experimental, tensorflow.io.gfile
    folder = tempfile.mkdtemp()
    try:
        profiler.start(folder)
        time.sleep(seconds)
        profiler.stop()
        found = [os.path.join(at, name) for at, _, names in os.walk(folder) for name in names]
        (made,) = [path for path in found if path.endswith(".xplane.pb")]
        # Named by the instance: TensorFlow would name it by the host, which may have several.
        files.makedirs(os.path.dirname(file))
        files.copy(made, file)
        return os.path.getsize(made)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


serve()
