# Runs at the start of each Python of a program, whose PYTHONPATH has this folder first. It lets
# tfapp's runner ask for stacks, gives TensorFlow its file systems once TensorFlow is imported, lets
# the runner ask for traces from then on, tells JAX by which address others reach this process, and
# then does what the program's own sitecustomize does.
# Written so that older Pythons can read it.
import os
import sys

_VARIABLE = "TFAPP_STORAGE_PACKAGES"  # the folder of the packages that tfapp.storage needs
_HERE = os.path.dirname(os.path.abspath(__file__))
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))  # of the tfapp that travels
_HOST = "TFAPP_HOST"  # by which the other instances reach this one
_STACKS = "tfapp-stacks"  # tfapp.contract.stacks has both
_STACKS_SIGNAL = 50
_answers = set()  # type: set[str]  # of what kinds requests are answered


class UntilTensorFlow:
    def __init__(self, opens):
        self.opens = opens  # whether TensorFlow gets file systems

    def find_spec(self, name, path=None, target=None):
        if name == "tensorflow":
            return self._found(name, path, target)
        if not self.opens:
            return None
        if name == "tfapp.storage":  # of a tfapp that may be another one, or a part of one
            sys.modules["tfapp"].__path__.append(os.path.join(_ROOT, "tfapp"))
        if name == "tensorboard.compat.tensorflow_stub":  # without TensorFlow it reads by fsspec
            _give_to_fsspec()
        return None

    def _found(self, name, path, target):
        try:
            if self.opens:
                from tfapp import storage

            sys.meta_path.remove(self)
            if self.opens:
                storage.register(_warn)
        except Exception as error:
            _warn(error)
            return None
        finally:
            _answer_for_traces()
        # The import system goes through the finders that were there before.
        return sys.meta_path[0].find_spec(name, path, target)


class UntilJax:
    """JAX on processors connects the processes by Gloo. By itself that tells the others the address
    that this machine's name has here, which may be 127.0.0.1."""

    def find_spec(self, name, path=None, target=None):
        if name == "jax._src.xla_bridge":
            try:
                from jaxlib import _jax

                self._change(_jax)
            except Exception:  # another version, or without Gloo
                pass

    def _change(self, library):
        make = library.make_gloo_tcp_collectives

        def make_here(distributed_client, hostname=None, interface=None):
            if hostname is None and interface is None:
                hostname = os.environ.get(_HOST)
            return make(distributed_client, hostname, interface)

        library.make_gloo_tcp_collectives = make_here


def _give_to_fsspec():
    try:
        from tfapp.storage import system
    except ImportError:
        return  # fsspec then opens what it can
    system.register()


def _warn(error):
    sys.stderr.write("tfapp: warning: no URL can be opened here: %s\n" % (error,))  # noqa: UP031


def _answer_for_stacks():
    """At the signal, a thread writes its stack into a file of memory, from which the runner reads
    it. Each its own: those of others that run meanwhile cannot be read safely. Nothing is imported
    but what is in the interpreter already."""
    try:
        import faulthandler

        made = os.memfd_create(_STACKS)
        try:
            # At its end, wherever that is after the runner has emptied it.
            appended = os.open("/proc/self/fd/%d" % made, os.O_WRONLY | os.O_APPEND)  # noqa: UP031
        finally:
            os.close(made)
        faulthandler.register(_STACKS_SIGNAL, file=appended, all_threads=False, chain=False)
    except Exception:  # Python 3.7, or no file can be opened: then there are no stacks
        pass


def _answer_for_traces():
    """At most once, with the first look for TensorFlow."""
    if _answers:
        return
    _answers.add("traces")
    try:
        path = os.path.join(_HERE, "tfapp_profiles.py")
        with open(path) as file:
            exec(compile(file.read(), path, "exec"), {"__name__": "tfapp_profiles"})
    except Exception:  # Python 3.7, or no file can be opened: then there are no traces
        pass


def _run_next():
    """Runs the sitecustomize that Python would have run without this one."""
    this = sys.modules.pop("sitecustomize", None)
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise  # one of its own imports
        if this is not None:
            sys.modules["sitecustomize"] = this


sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != _HERE]
_answer_for_stacks()
_opens = sys.version_info >= (3, 10) and bool(os.environ.get(_VARIABLE))
if _opens:
    sys.path += [_ROOT, os.environ[_VARIABLE]]
sys.meta_path.insert(0, UntilJax())
if hasattr(os, "memfd_create"):
    sys.meta_path.insert(0, UntilTensorFlow(_opens))
_run_next()
