"""The commands. A new one is one module here and one line in COMMANDS.

A module has `add_arguments(parser)` and `run(args, shell) -> int` (an exit code); its docstring
is the command's manual page. It is imported when its command is called, and not before.
"""

from __future__ import annotations

# Name -> (module, help in one line), in the order of `tfapp --help`.
COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("tfapp.cli.commands.init", "create an app package that runs as it is"),
    "validate": ("tfapp.cli.commands.validate", "report all errors in a package"),
    "compile": ("tfapp.cli.commands.compile", "print the Skein specification of a package"),
    "schema": ("tfapp.cli.commands.schema", "show the keys of documents, or explain one"),
    "create": ("tfapp.cli.commands.create", "run a package and follow it to its end"),
    "run": ("tfapp.cli.commands.run", "run one training script on N workers"),
    "start": ("tfapp.cli.commands.start", "run an application again, unchanged"),
    "stop": ("tfapp.cli.commands.stop", "stop running applications"),
    "wait": ("tfapp.cli.commands.wait", "wait for the end of an application"),
    "status": ("tfapp.cli.commands.status", "show the state of an application"),
    "diagnostics": ("tfapp.cli.commands.diagnostics", "show what has happened to an application"),
    "list": ("tfapp.cli.commands.list", "list applications"),
    "exists": ("tfapp.cli.commands.exists", "test whether an application exists, for scripts"),
    "logs": ("tfapp.cli.commands.logs", "print or follow the output of the programs"),
    "exports": ("tfapp.cli.commands.exports", "show the addresses that instances export"),
    "registry": ("tfapp.cli.commands.registry", "show export groups in Slider's JSON shape"),
    "tensorboard": (
        "tfapp.cli.commands.tensorboard",
        "print the address of an application's TensorBoard, or start one",
    ),
    "ui": ("tfapp.cli.commands.ui", "show applications in a browser"),
    "report": ("tfapp.cli.commands.report", "write an application's page as one file"),
    "fetch": ("tfapp.cli.commands.fetch", "copy files of an application's checkpoint folder"),
    "flex": ("tfapp.cli.commands.flex", "change the number of instances while it runs"),
    "kill-container": ("tfapp.cli.commands.kill_container", "kill a container, to test recovery"),
    "doctor": ("tfapp.cli.commands.doctor", "check this machine and the cluster"),
    "completion": ("tfapp.cli.commands.completion", "print a script for shell completion"),
    "destroy": ("tfapp.cli.commands.destroy", "delete applications and their logs"),
}
