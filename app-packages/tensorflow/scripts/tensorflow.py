"""Starts the user's TensorFlow program, or TensorBoard, for one instance."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tfapp.runner import tensorflow_env
from tfapp.script import Context, Handle, Program, ProgramMissingError, Script, ScriptError

PROBE_LIMIT = 120.0  # seconds; importing TensorFlow takes a few

# Run by the program's interpreter in the program's folder and environment, as the program will
# be. Its own modules are not looked for in that folder.
PROBE = """
import sys
folder = sys.path.pop(0)
import importlib.util, json
sys.path.insert(0, folder)
modules, schemes = json.loads(sys.argv[1])
told = {"missing": [name for name in modules if importlib.util.find_spec(name) is None]}
if schemes:
    import tensorflow as tf
    try:
        import tensorflow_io
    except ImportError:
        pass
    told.update(version=tf.__version__, schemes=tf.io.gfile.get_registered_schemes())
print(json.dumps(told))
"""

# TensorBoard's modules are not looked for in the program's folder.
TENSORBOARD = "import sys; del sys.path[0]; from tensorboard.main import run_main; run_main()"

# By these variables an interpreter looks for modules elsewhere.
PLACES = ("HOME", "PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONPATH", "PYTHONUSERBASE")

INSTALL = "is not installed in {}; install it or set site.global.python.executable"


class Tensorflow(Script):
    """Every component of the package; the component's role decides."""

    def prepare(self, context: Context) -> None:
        """Finds out early what would only fail once all instances have met."""
        if context.component.role == "tensorboard":
            if probe(context, ["tensorboard"])["missing"]:
                raise ScriptError("TensorBoard " + INSTALL.format(interpreter(context)))
            return
        entry = entry_file(context)
        check_folder("site.global.user.checkpoint.prefix", context.checkpoint_dir)
        if entry.suffix == ".py":
            check_tensorflow(context)

    def start(self, context: Context) -> Program:
        """The program with TF_CONFIG, WORKER_NUMBER and TOT_WORKERS; or TensorBoard."""
        if context.component.role == "tensorboard":
            return tensorboard(context)
        env = {
            # TensorFlow's server binds the port that the runner holds for it.
            "TF_GRPC_REUSE_PORT": "true",
            **keras_environment(context),
        }
        if context.component.role in tensorflow_env.TASK_ROLES:
            env.update(tensorflow_env.task_environment(context.instance, context.members))
        if not context.config.get("user.checkpoint.prefix"):
            print(
                "tfapp: warning: site.global.user.checkpoint.prefix is not set: checkpoints go to "
                f"{context.checkpoint_dir}, which no other instance sees and which ends with "
                "this container",
                flush=True,
            )
        command = entry_command(context, entry_file(context))
        return Program((*command, *context.words("user.scripts.args")), env)

    def stop(self, context: Context, handle: Handle) -> None:
        """SIGTERM. TensorFlow may ignore it; the runner then kills when the grace is over."""
        handle.signal(signal.SIGTERM)

    def status(self, context: Context, handle: Handle) -> bool:
        return handle.running()


def entry_file(context: Context) -> Path:
    """The program's file. ScriptError when it is not there."""
    entry = context.config.get("user.scripts.entry", "")
    path = Path(os.path.normpath(context.files_dir / entry))
    if context.files_dir not in path.parents:
        raise ScriptError(f"site.global.user.scripts.entry: {entry!r} is not below files/")
    if not path.is_file():
        raise ScriptError(
            f"site.global.user.scripts.entry: there is no {entry} in files/; put it into the "
            "package's files/ or give it with --files"
        )
    return path


def entry_command(context: Context, path: Path) -> tuple[str, ...]:
    """How the program's file is run: Python, an executable, or else a shell script."""
    if path.suffix == ".py":
        return (context.python, str(path))
    if os.access(path, os.X_OK):
        return (str(path),)
    return ("bash", str(path))


def keras_environment(context: Context) -> dict[str, str]:
    """TF_USE_LEGACY_KERAS, unless the user has given it."""
    if "TF_USE_LEGACY_KERAS" in context.env:
        return {}
    return {"TF_USE_LEGACY_KERAS": "1"} if wants_keras_2(context) else {}


def wants_keras_2(context: Context) -> bool:
    return context.config.get("keras.legacy", "true").lower() == "true"


def tensorboard(context: Context) -> Program:
    """TensorBoard on the port that this component exports."""
    port = context.config[f"{context.component.name}.port"]
    # Where everything is on one machine, nobody else has to see it.
    loopback = context.host in ("127.0.0.1", "localhost", "::1")
    address = ("--host", context.host) if loopback else ("--bind_all",)
    argv = (
        *(context.python, "-c", TENSORBOARD),
        *("--logdir", context.config["tensorboard.logdir"]),
        *("--port", port, "--reuse_port", "true", *address),
        *context.words("tensorboard.args"),
    )
    return Program(argv)


def check_tensorflow(context: Context) -> None:
    """ScriptError when the program's interpreter lacks TensorFlow, or TensorFlow a file system
    that the configuration names."""
    folders = {
        "site.global.user.checkpoint.prefix": url_scheme(context.checkpoint_dir),
        "site.global.user.data.dir": url_scheme(context.data_dir),
    }
    wanted = {key: scheme for key, scheme in folders.items() if scheme not in ("", "file")}
    told = probe(context, ["tensorflow", "tf_keras"])
    if "tensorflow" in told["missing"]:
        raise ScriptError("TensorFlow " + INSTALL.format(interpreter(context)))
    if "tf_keras" in told["missing"] and wants_keras_2(context):
        print(
            f"tfapp: warning: site.global.keras.legacy is true, but tf-keras is not installed in "
            f"{interpreter(context)}: tf.keras will fail with TensorFlow 2.16 and newer",
            flush=True,
        )
    if not wanted:
        return
    told = probe(context, [], schemes=True)
    for key, scheme in wanted.items():
        if scheme not in told["schemes"]:
            raise ScriptError(
                f"{key}: TensorFlow {told['version']} in {interpreter(context)} cannot open "
                f"{scheme}://; use a shared mount, or TensorFlow 2.16 or older with tensorflow-io"
            )


def check_folder(key: str, folder: str) -> None:
    """ScriptError for a relative path, which is another folder in every instance."""
    if not url_scheme(folder) and not os.path.isabs(folder):
        raise ScriptError(
            f"{key}: {folder!r} is relative, which means another folder in every instance; "
            "give an absolute path or a URL"
        )


def url_scheme(folder: str) -> str:
    """ "hdfs" of hdfs://..., "" of a path."""
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", folder)
    return match.group(1).lower() if match else ""


def probe(context: Context, modules: Sequence[str], schemes: bool = False) -> dict[str, Any]:
    """What the program's interpreter says: which of `modules` are `missing` and, if `schemes`,
    TensorFlow's `version` and the `schemes` of URLs that it can open. ScriptError when it
    cannot be asked."""
    if not schemes and is_this_interpreter(context):
        folder = [str(context.work_dir)]
        found = {name for name in modules if PathFinder.find_spec(name, folder) or find_spec(name)}
        return {"missing": [name for name in modules if name not in found]}
    argv = [context.python, "-c", PROBE, json.dumps([list(modules), schemes])]
    try:
        done = context.execute(argv, PROBE_LIMIT)
    except ProgramMissingError as error:
        raise ScriptError(f"{error}; set site.global.python.executable") from error
    if done.code != 0:
        raise ScriptError(f"{context.python} failed:\n{done.errors.strip()[-2000:]}")
    return json.loads(done.output.splitlines()[-1])


def is_this_interpreter(context: Context) -> bool:
    """Whether the program's interpreter finds modules where this one does."""
    return (
        context.component.docker is None
        and context.python == sys.executable
        and all(context.env.get(name) == os.environ.get(name) for name in PLACES)
    )


def interpreter(context: Context) -> str:
    """How messages call the program's interpreter."""
    docker = context.component.docker
    return context.python if docker is None else f"{context.python} of image {docker.image}"
