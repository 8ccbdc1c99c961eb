"""The tfapp command for each command of Slider, docker, kubectl or Hadoop that tfapp does not
have."""

from __future__ import annotations

_LIST = "`tfapp list` shows the applications."
_DESTROY = "`tfapp destroy NAME` deletes an application; `--ended` deletes all that have ended."
_KILL = "`tfapp stop NAME --force` ends an application at once, `tfapp stop NAME` with its grace."
_FLEX = "`tfapp flex NAME --component COMPONENT N` changes the number of instances."
_STATUS = "`tfapp status NAME` shows an application, its instances and why it ended."
_CREATE = "`tfapp create NAME --appdef DIR` runs a package, `tfapp run SCRIPT` a script."
_FILES = "Nothing is installed: `tfapp create NAME --appdef DIR` brings the package along."

INSTEAD = {
    # Slider
    "freeze": "`tfapp stop NAME` ends it; `tfapp start NAME` goes on from its checkpoints.",
    "thaw": "`tfapp start NAME` runs it again, from its checkpoints.",
    "update": "`tfapp create NAME --appdef DIR --replace` runs the present package in its place.",
    "upgrade": "`tfapp create NAME --appdef DIR --replace` runs the present package in its place.",
    "build": "`tfapp validate DIR` checks a package, `tfapp compile DIR` shows what it becomes.",
    "am-suicide": "`tfapp kill-container NAME INSTANCE` tests recovery. "
    "The master cannot be killed alone: the application ends with it.",
    "install-package": _FILES,
    "install-client": _FILES,
    "package": _FILES,
    "resource": _FILES,
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
    "top": "`tfapp status NAME` shows steps, speed and metrics of each instance.",
    "apply": _CREATE,
    "submit": _CREATE,
    "restart": "`tfapp stop NAME` and `tfapp start NAME` run it again as it was; "
    "`tfapp create NAME --appdef DIR --replace` runs the present package.",
    "explain": "`tfapp schema KEY` explains a key of a package.",
    "events": "`tfapp diagnostics NAME` shows what has happened to an application.",
    "history": "`tfapp diagnostics NAME` shows what has happened to an application.",
    "cp": "`tfapp fetch NAME [PATH] DIR` copies files of its checkpoint folder.",
    "port-forward": "`tfapp tensorboard NAME` forwards a port to its TensorBoard.",
    "attach": "`tfapp logs NAME -f` follows the output of its programs.",
}
