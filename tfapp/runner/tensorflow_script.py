"""The script of packages with TensorFlow: it starts the user's program, TensorBoard or a part of
tf.data service."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from tfapp.runner import data_service, entry, tensorflow_env
from tfapp.script import Context, Handle, Program, Script, ScriptError

# Once MultiWorkerMirroredStrategy is made, a handler in one of these catches SIGTERM, and the
# program goes on; unless it sets a handler of its own afterwards.
CATCHERS = ("libtensorflow", "_pywrap_tensorflow")

# TensorBoard's modules are not looked for in the program's folder.
TENSORBOARD = "import sys; del sys.path[0]; from tensorboard.main import run_main; run_main()"

# The entry of workers and parameter servers whose chief's program hands out all the work.
SERVER = "tfapp:server"
SERVER_PROGRAM = """
import tensorflow as tf
tf.get_logger().setLevel("ERROR")
task = tf.distribute.cluster_resolver.TFConfigClusterResolver()
tf.distribute.Server(task.cluster_spec(), job_name=task.task_type, task_index=task.task_id).join()
"""

LEGACY_KERAS = "TF_USE_LEGACY_KERAS"  # by it, tf.keras is Keras 2: tf-keras, beside Keras 3


class TensorflowScript(Script):
    """Every component of such a package; the component's role decides."""

    def __init__(self) -> None:
        self.legacy_keras = False  # whether LEGACY_KERAS is to be set, found out by prepare()
        self.generation = 0  # of the last start

    def prepare(self, context: Context) -> None:
        """Finds out early what would only fail once all instances have met."""
        if context.component.role == "tensorboard":
            told = entry.probe(context, ["tensorboard"])
            self.tell_versions(told)
            if told["missing"]:
                raise ScriptError("TensorBoard " + entry.INSTALL.format(entry.interpreter(context)))
            return
        entry.check_folder("site.global.user.checkpoint.prefix", context.checkpoint_dir)
        if is_server(context) or context.component.role in data_service.ROLES:
            self.tell_versions(check_tensorflow(context, optional=False))
            return
        if entry.is_command(context):
            self.legacy_keras = uses_keras_2(context, find_keras(context))
            return
        path = entry.entry_file(context)
        entry.link_file(context)
        python = entry.is_python(path)
        told = check_tensorflow(context, entry.is_call(path)) if python else find_keras(context)
        if python:  # another program may start another Python
            self.tell_versions(told)
        elif entry.is_pex(path):
            command = ("env", "PEX_INTERPRETER=1", *entry.entry_command(context, path))
            check_schemes(context, path.name, command)
        self.legacy_keras = uses_keras_2(context, told)

    def tell_versions(self, told: dict[str, Any]) -> None:
        """Takes them from what `probe` tells. Which Keras a program uses is its own affair."""
        found = told["versions"]
        self.versions = {name: found[name] for name in ("Python", "TensorFlow") if name in found}

    def start(self, context: Context) -> Program:
        """The program with TF_CONFIG, WORKER_NUMBER and TOT_WORKERS; TensorBoard; or a part of
        tf.data service."""
        anew, self.generation = context.generation != self.generation, context.generation
        if context.component.role == "tensorboard":
            return tensorboard(context)
        if context.component.role in data_service.ROLES:
            return data_service.program(context, anew)
        # TensorFlow's server binds the port that the runner holds for it.
        env = {"TF_GRPC_REUSE_PORT": "true"}
        if self.legacy_keras and LEGACY_KERAS not in context.env:
            env[LEGACY_KERAS] = "1"
        if context.component.role in tensorflow_env.TASK_ROLES:
            env.update(tensorflow_env.task_environment(context.instance, context.members))
            env.update(tensorflow_env.without_proxy(context.members, context.env))
        env.update(data_service.environment(context.members))
        entry.warn_of_checkpoints(context)
        if is_server(context):
            return Program((context.python, "-c", SERVER_PROGRAM), env)
        return entry.program(context, env)

    def stop(self, context: Context, handle: Handle) -> None:
        """At the end of Python TensorFlow may wait 10 s for others."""
        entry.stop(context, handle, CATCHERS)

    def status(self, context: Context, handle: Handle) -> bool:
        return handle.running()


def is_server(context: Context) -> bool:
    """Whether the instance is to be a standard TensorFlow server."""
    return context.config.get("user.scripts.entry") == SERVER


def wants_keras_2(context: Context) -> bool:
    return context.config.get("keras.legacy", "true").lower() == "true"


def uses_keras_2(context: Context, told: dict[str, Any]) -> bool:
    """Whether LEGACY_KERAS is to be set. Without tf-keras, `import tf.keras` would fail by it."""
    there = "tf_keras" not in told["missing"] and not has_keras_2(told)
    return there and wants_keras_2(context)


def has_keras_2(told: dict[str, Any]) -> bool:
    """Whether tf.keras is Keras 2 as it is: that of TensorFlow 2.15 and older."""
    return told["versions"].get("Keras", "").startswith("2.")


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


def check_tensorflow(context: Context, optional: bool) -> dict[str, Any]:
    """What `probe` tells of tensorflow and tf_keras. ScriptError when the program's interpreter
    lacks TensorFlow, unless that is `optional`, or TensorFlow a file system that the configuration
    names."""
    told = entry.probe(context, ["tensorflow", "tf_keras"])
    if "tensorflow" in told["missing"]:
        if optional:
            return {**told, "missing": ["tf_keras"]}
        raise ScriptError("TensorFlow " + entry.INSTALL.format(entry.interpreter(context)))
    if "tf_keras" in told["missing"] and wants_keras_2(context) and not has_keras_2(told):
        print(
            f"tfapp: warning: site.global.keras.legacy is true, but tf-keras is not installed in "
            f"{entry.interpreter(context)}: tf.keras is Keras 3, with which model.fit() fails "
            "under MultiWorkerMirroredStrategy and ParameterServerStrategy",
            flush=True,
        )
    check_schemes(context, entry.interpreter(context), (context.python,))
    return told


def check_schemes(context: Context, name: str, command: Sequence[str]) -> None:
    """ScriptError when the TensorFlow of the Python that `command` starts has not the file system
    of a folder of the configuration. `name`: what messages call this Python."""
    folders = {
        "site.global.user.checkpoint.prefix": entry.url_scheme(context.checkpoint_dir),
        "site.global.user.data.dir": entry.url_scheme(context.data_dir),
    }
    wanted = {key: scheme for key, scheme in folders.items() if scheme not in ("", "file")}
    opened = entry.probe(context, [], list(wanted.values()), command) if wanted else {}
    for key, scheme in wanted.items():
        if scheme not in opened["schemes"]:
            raise ScriptError(
                f"{key}: TensorFlow in {name} cannot open {scheme}://"
                f"{opened['why'] and ': '}{opened['why']}; use a shared mount, or see "
                "docs/storage.md"
            )


def find_keras(context: Context) -> dict[str, Any]:
    """What `probe` tells of tf_keras for a program of another language, which may start Python.
    Where there is none, or the answer does not matter, tf_keras is missing."""
    if wants_keras_2(context) and LEGACY_KERAS not in context.env:
        with contextlib.suppress(ScriptError):
            return entry.probe(context, ["tf_keras"])
    return {"missing": ["tf_keras"], "versions": {}}
