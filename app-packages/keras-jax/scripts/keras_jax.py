"""Starts the user's JAX program, with Keras 3 or without, for one instance."""

from __future__ import annotations

from tfapp.runner import entry
from tfapp.script import Context, Handle, Program, Script, ScriptError

# JAX's client of its coordinator catches SIGTERM, to tell the program of it, which goes on.
CATCHERS = ("libjax", "_jax", "xla_extension")
SHOWN = ("Python", "JAX", "Keras")


class KerasJax(Script):
    def prepare(self, context: Context) -> None:
        """Finds out early what would only fail once all instances have met."""
        entry.check_folder("site.global.user.checkpoint.prefix", context.checkpoint_dir)
        if entry.is_command(context):
            return
        path = entry.entry_file(context)
        entry.link_file(context)
        if not entry.is_python(path):  # another program may start another Python
            return
        told = entry.probe(context, ["jax"])
        if told["missing"] and not entry.is_call(path):
            raise ScriptError("JAX " + entry.INSTALL.format(entry.interpreter(context)))
        found = told["versions"]
        self.versions = {name: found[name] for name in SHOWN if name in found}

    def start(self, context: Context) -> Program:
        """The program with what jax.distributed.initialize and keras.distribution.initialize are to
        know."""
        addresses = entry.addresses(context, "worker")
        names = [one.instance for one in context.members if one.role == "worker"]
        total, own = str(len(names)), str(names.index(context.instance))
        env = {
            "KERAS_BACKEND": context.env.get("KERAS_BACKEND", "jax"),
            "JAX_COORDINATOR_ADDRESS": addresses[0],
            "JAX_NUM_PROCESSES": total,
            "JAX_PROCESS_ID": own,
            "KERAS_DISTRIBUTION_JOB_ADDRESSES": ",".join(addresses),
            "KERAS_DISTRIBUTION_NUM_PROCESSES": total,
            "KERAS_DISTRIBUTION_PROCESS_ID": own,
            **entry.without_proxy(context.members, context.env),
        }
        entry.warn_of_checkpoints(context)
        return entry.program(context, env)

    def stop(self, context: Context, handle: Handle) -> None:
        entry.stop(context, handle, CATCHERS)
