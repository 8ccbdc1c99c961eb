"""The commands. A new one is one module here and one line in COMMANDS.

A module has `add_arguments(parser)` and `run(args, shell)`, which returns the exit code, or None
for 0; its docstring is the command's manual page. It is imported when its command is called, and
not before.
"""

from __future__ import annotations

# Name -> (module, help in one line), in the order of `tfapp --help`.
COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("tfapp.cli.commands.init", "create an app package that runs as it is"),
    "packages": ("tfapp.cli.commands.packages", "list the app packages that tfapp brings"),
    "test-package": ("tfapp.cli.commands.test_package", "test a package of your own"),
    "import-tfjob": ("tfapp.cli.commands.import_tfjob", "write a package from a TFJob"),
    "validate": ("tfapp.cli.commands.validate", "report all errors in a package"),
    "compile": ("tfapp.cli.commands.compile", "print the Skein specification of a package"),
    "schema": ("tfapp.cli.commands.schema", "show the keys of documents, or explain one"),
    "create": ("tfapp.cli.commands.create", "run a package and follow it to its end"),
    "run": ("tfapp.cli.commands.run", "run one training script on N workers"),
    "grid": ("tfapp.cli.commands.grid", "run one program with many parameters, N runs at a time"),
    "start": ("tfapp.cli.commands.start", "run an application again, unchanged"),
    "stop": ("tfapp.cli.commands.stop", "stop running applications"),
    "wait": ("tfapp.cli.commands.wait", "wait for the end of an application"),
    "flex": ("tfapp.cli.commands.flex", "change the number of instances while it runs"),
    "kill-container": ("tfapp.cli.commands.kill_container", "kill a container, to test recovery"),
    "list": ("tfapp.cli.commands.list", "list applications"),
    "exists": ("tfapp.cli.commands.exists", "test whether an application exists, for scripts"),
    "destroy": ("tfapp.cli.commands.destroy", "delete applications and their logs"),
    "status": ("tfapp.cli.commands.status", "show the state of an application"),
    "diagnostics": ("tfapp.cli.commands.diagnostics", "show what has happened to an application"),
    "logs": ("tfapp.cli.commands.logs", "print or follow the output of the programs"),
    "stacks": ("tfapp.cli.commands.stacks", "show where the programs are, by their stacks"),
    "exec": ("tfapp.cli.commands.exec", "run a command, or a shell, beside a program"),
    "profile": ("tfapp.cli.commands.profile", "trace the programs for TensorBoard's page Profile"),
    "exports": ("tfapp.cli.commands.exports", "show the addresses that instances export"),
    "registry": ("tfapp.cli.commands.registry", "show export groups in Slider's JSON shape"),
    "tensorboard": (
        "tfapp.cli.commands.tensorboard",
        "print the address of an application's TensorBoard, or start one",
    ),
    "ui": ("tfapp.cli.commands.ui", "show applications in a browser"),
    "report": ("tfapp.cli.commands.report", "write an application's page as one file"),
    "history": ("tfapp.cli.commands.history", "list and compare runs that have ended"),
    "fetch": ("tfapp.cli.commands.fetch", "copy files of an application's checkpoint folder"),
    "doctor": ("tfapp.cli.commands.doctor", "check this machine and the cluster"),
    "completion": ("tfapp.cli.commands.completion", "print a script for shell completion"),
}

# Headings of `tfapp --help`, by the command before which each stands.
HEADINGS = {
    "init": "app packages",
    "create": "applications",
    "status": "what an application does",
    "ui": "pages, files and history",
    "doctor": "this machine",
}

_LIST = "`tfapp list` shows the applications."
_DESTROY = "`tfapp destroy NAME` deletes an application; `--ended` deletes all that have ended."
_KILL = "`tfapp stop NAME --force` ends an application at once, `tfapp stop NAME` with its grace."
_FLEX = "`tfapp flex NAME --component COMPONENT N` changes the number of instances."
_STATUS = "`tfapp status NAME` shows an application, its instances and why it ended."
_CREATE = "`tfapp create NAME --appdef DIR` runs a package, `tfapp run SCRIPT` a script."
_FILES = "Nothing is installed: `tfapp create NAME --appdef DIR` brings the package along."

# Command of Slider, docker, kubectl or Hadoop that tfapp does not have -> what to use in its place.
INSTEAD = {
    # Slider
    "freeze": "`tfapp stop NAME` ends it; `tfapp start NAME` goes on from its checkpoints.",
    "thaw": "`tfapp start NAME` runs it again, from its checkpoints.",
    "update": "`tfapp create NAME --appdef DIR --replace` runs the present package in its place.",
    "upgrade": "`tfapp create NAME --appdef DIR --replace` runs the present package in its place.",
    "build": "`tfapp validate DIR` checks a package, `tfapp compile DIR` shows what it becomes.",
    "am-suicide": "`tfapp kill-container NAME INSTANCE` tests recovery. "
    "No command kills the master: another one would take its place.",
    "install-package": _FILES,
    "install-client": _FILES,
    "package": _FILES,
    "resource": _FILES,
    "dependency": _FILES,
    "client": _FILES,
    "keytab": "Run `kinit`, or set KRB5KEYTAB and KRB5PRINCIPAL; `tfapp doctor` checks the ticket.",
    "tokens": "`tfapp doctor` says whether there is a Kerberos ticket; YARN renews the tokens.",
    "kdiag": "`tfapp doctor` checks the Kerberos ticket and the cluster.",
    "nodes": "`tfapp doctor` checks the cluster; `yarn node -list` lists its nodes.",
    "dashboard": "`tfapp ui` shows applications in a browser.",
    "web": "`tfapp ui` shows applications in a browser.",
    "lookup": _STATUS,
    "resolve": "`tfapp registry --name NAME --getexp GROUP` shows what it exports.",
    # docker, kubectl, the yarn command
    "ps": _LIST,
    "ls": _LIST,
    "get": _LIST,
    "rm": _DESTROY,
    "delete": _DESTROY,
    "prune": "`tfapp destroy --ended --older-than 7d` deletes those that ended over 7 days ago.",
    "kill": _KILL,
    "scale": _FLEX,
    "describe": _STATUS,
    "inspect": _STATUS,
    "info": _STATUS,
    "py-spy": "`tfapp stacks NAME` shows the stacks of all programs.",
    "top": "`tfapp status NAME` shows steps, speed and metrics of each instance.",
    "apply": _CREATE,
    "submit": _CREATE,
    "sweep": "`tfapp grid SCRIPT --points FILE` runs one program with many parameters.",
    "restart": "`tfapp stop NAME` and `tfapp start NAME` run it again as it was; "
    "`tfapp create NAME --appdef DIR --replace` runs the present package.",
    "explain": "`tfapp schema KEY` explains a key of a package.",
    "events": "`tfapp diagnostics NAME` shows what has happened to an application.",
    "cp": "`tfapp fetch NAME [PATH] DIR` copies files of its checkpoint folder.",
    "port-forward": "`tfapp tensorboard NAME` forwards a port to its TensorBoard.",
    "attach": "`tfapp logs NAME -f` follows the output of its programs.",
}
