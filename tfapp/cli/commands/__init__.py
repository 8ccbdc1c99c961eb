"""The commands. A new one is one module here and one line in COMMANDS.

A module has `add_arguments(parser)` and `run(args, shell) -> int` (an exit code); its docstring
is the command's manual page. It is imported when its command is called, and not before.
"""

from __future__ import annotations

# Name -> (module, help in one line), in the order of `tfapp --help`.
COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("tfapp.cli.commands.init", "make a new app package that runs as it is"),
    "validate": ("tfapp.cli.commands.validate", "say all that is wrong with a package"),
    "compile": ("tfapp.cli.commands.compile", "print the Skein specification of a package"),
    "schema": ("tfapp.cli.commands.schema", "show the keys of documents, or explain one"),
    "create": ("tfapp.cli.commands.create", "run a package and follow it to its end"),
    "run": ("tfapp.cli.commands.run", "run one training script on N workers"),
    "start": ("tfapp.cli.commands.start", "run an application once more"),
    "stop": ("tfapp.cli.commands.stop", "stop running applications"),
    "wait": ("tfapp.cli.commands.wait", "wait for an application's end"),
    "status": ("tfapp.cli.commands.status", "show the state of an application"),
    "diagnostics": ("tfapp.cli.commands.diagnostics", "show what happened to it, and when"),
    "list": ("tfapp.cli.commands.list", "list applications"),
    "exists": ("tfapp.cli.commands.exists", "tell by the exit code whether an application exists"),
    "logs": ("tfapp.cli.commands.logs", "print or follow what the programs write"),
    "exports": ("tfapp.cli.commands.exports", "show what the instances export"),
    "registry": ("tfapp.cli.commands.registry", "show export groups in Slider's JSON shape"),
    "tensorboard": (
        "tfapp.cli.commands.tensorboard",
        "print its TensorBoard's address; after its end, open one",
    ),
    "ui": ("tfapp.cli.commands.ui", "show applications in a browser"),
    "report": ("tfapp.cli.commands.report", "write its page as one file, to keep or send"),
    "fetch": ("tfapp.cli.commands.fetch", "copy files of its checkpoint folder here"),
    "flex": ("tfapp.cli.commands.flex", "change the number of instances while it runs"),
    "kill-container": ("tfapp.cli.commands.kill_container", "kill a container, as a drill"),
    "doctor": ("tfapp.cli.commands.doctor", "check what tfapp needs around it"),
    "completion": ("tfapp.cli.commands.completion", "make a shell complete its command lines"),
    "destroy": ("tfapp.cli.commands.destroy", "forget applications and delete their logs"),
}
