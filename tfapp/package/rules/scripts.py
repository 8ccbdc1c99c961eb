"""The files that a package runs: its components' scripts, and the user's program."""

from __future__ import annotations

import ast
import contextlib
import os
import warnings
from collections.abc import Collection, Iterator

from tfapp.errors import TfappError
from tfapp.package.find import place
from tfapp.package.model import FILES, AppPackage, Component, setting
from tfapp.package.rules.rule import Found, did_you_mean, rule, settings
from tfapp.package.safety import unsafe_reason
from tfapp.problems import WARNING, Position
from tfapp.shipped import app_packages_dir
from tfapp.sources import parsed

TRAINING_ROLES = ("chief", "worker", "ps", "evaluator")
# Keys of site.global by which a component's Python is another one, beside run.mode.
OTHER_PYTHONS = ("python.archive", "python.executable", "python.version", "docker.image")
SERVER = "tfapp:server"  # in place of a file: a standard TensorFlow server
IMAGE = "tfapp:image"  # in place of a command: the image's own
SERVER_ROLES = ("worker", "ps")
PYTHON_SUFFIXES = (".py", ".pyw", ".pyz")
_PYTHON_LINE = "#!/usr/bin/env python3"
_OF_MACHINES = (b"MultiWorkerMirroredStrategy", b"ParameterServerStrategy")
# In a script that reads it from its context's `config`, or has tfapp do so.
READS = (b"user.scripts.entry", b"from tfapp.runner import entry")


@rule("unsafe-path", "metainfo")
def unsafe_path(package: AppPackage) -> Iterator[Found]:
    """The path of a script that leads out of the package.

    Scripts are named by a relative path, with `/`, without `..`: a component's
    `commandScript.script` below the package, `site.global.user.scripts.entry` below `files/`.
    Reported at the path.

        script: scripts/tensorflow.py      PASS
        script: ../tensorflow.py           FAIL
        script: /opt/tensorflow.py         FAIL
    """
    for component in package.components:
        if reason := unsafe_reason(component.script):
            message = f"the script '{component.script}' {reason}"
            yield Found(component.place("script"), message, "write a path inside the package")
    for value in settings(package, "user.scripts.entry"):
        if reason := unsafe_reason(value.text):
            hint = "write a path below files/, and ship the script with --files"
            yield Found(value.at, f"the entry script '{value.text}' {reason}", hint)
    for name in package.user_files:
        if reason := unsafe_reason(name):
            message = f"the user's file '{name}' {reason}"
            yield Found(Position("--files"), message, "ship it under another name")


@rule("missing-script", "metainfo")
def missing_script(package: AppPackage) -> Iterator[Found]:
    """A component's script is not in the package. Reported at the path.

    commandScript: {script: scripts/tensorflow.py}     scripts/tensorflow.py is there     PASS
    commandScript: {script: scripts/tensorflow.py}     it is not                          FAIL
    """
    files = package.source.files()
    for component in package.components:
        script = component.script
        if script in files or unsafe_reason(script):
            continue
        if f"package/{script}" in files:
            hint = f"it is at package/{script}; scripts stand in scripts/, beside metainfo"
        else:
            scripts = [name for name in files if name.endswith(".py")]
            hint = did_you_mean(script, scripts, "put it there, with a class Script")
        yield Found(component.place("script"), f"the package has no file '{script}'", hint)


@rule("script-syntax", "metainfo")
def script_syntax(package: AppPackage) -> Iterator[Found]:
    """A component's script that Python cannot read.

    Judged by the Python that runs tfapp. The local engine runs scripts by it, and a package is
    to run on every engine, so what it does not know is an error also where the containers of a
    cluster have a newer one: run tfapp with that. What an older one there does not know is only
    found by it. Reported at the line and column in the script.

        def start(self, context):     PASS
        def start(self, context:      FAIL
    """
    named = {component.script for component in package.components}
    hint = "if it needs a newer Python, run tfapp with that one"
    for script in named.intersection(package.source.files()):
        if not script.endswith(".py"):  # the loader refuses others
            continue
        at = place(package.source, script)
        try:
            text = package.source.read(script)
        except TfappError as error:
            yield Found(at, error.message, error.hint)
        else:
            yield from _check_syntax(text, at, "script", hint)


def _check_syntax(text: bytes, at: Position, what: str, hint: str) -> Iterator[Found]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, at.file, "exec", dont_inherit=True)
    except SyntaxError as error:
        if error.lineno:
            at = Position(at.file, error.lineno, max(error.offset or 1, 1))
        line = f"the line is `{error.text.strip()[:80]}`" if error.text else ""
        said = "; ".join(part for part in (line, hint) if part)
        yield Found(at, f"Python cannot read the {what}: {error.msg}", said)
    except ValueError as error:  # a NUL, in older Pythons
        yield Found(at, f"Python cannot read the {what}: {error}", hint)


@rule("missing-entry", "metainfo", "appConfig")
def missing_entry(package: AppPackage) -> Iterator[Found]:
    """The user's program is shipped neither with the package nor with `--files`.

    `site.global.user.scripts.entry` is a path below `files/`. A value that somebody gives is
    always looked for. The default only where a component may run it: its role is one that does
    (chief, worker, ps, evaluator), and its script reads that key, or imports tfapp.runner.entry. A
    package whose own scripts know what they run needs no such file. Reported at the value.

        site.global.user.scripts.entry: train.py     files/train.py is there     PASS
        site.global.user.scripts.entry: train.py     --files src/train.py        PASS
        site.global.user.scripts.entry: train.py     neither                     FAIL
        the key is not given                         no script reads it          PASS
        site.global.user.scripts.entry: tfapp:server     of a worker or ps       PASS
        site.global.user.scripts.entry: tfapp:server     of a chief              FAIL
    """
    inside = [name[len(FILES) :] for name in package.source.files() if name.startswith(FILES)]
    shipped = {*inside, *package.user_files}
    for component in package.components:
        entry = setting(package.config.components.get(component.name, {}), "user.scripts.entry")
        if entry is None or entry.text in shipped or not is_looked_for(component, package):
            continue
        if entry.text == SERVER:
            if component.role not in SERVER_ROLES:
                message = f"'{SERVER}' is for workers and parameter servers, and "
                message += f"'{component.name}' is a {component.role}"
                yield Found(entry.at, message, "name the program that hands out the work")
            continue
        if unsafe_reason(entry.text) or any(entry.placeholders()):
            continue  # unsafe-path, misplaced-placeholder
        hint = _where_the_entry_is(entry.text, shipped)
        script, at = f"'{entry.text}'", entry.at
        if entry.is_default:
            script += " (the default of site.global.user.scripts.entry)"
            at = Position(package.source.label)
        yield Found(at, f"the entry script {script} is neither in {FILES} nor in --files", hint)


@rule("image-command", "metainfo", "appConfig")
def image_command(package: AppPackage) -> Iterator[Found]:
    """The program is to be the image's own command, and no Docker engine is there to tell it.

    On Kubernetes, nothing that runs in a pod can know the command that it replaces. Reported at
    the value, as a warning, because an option may set the run mode.

        site.global.user.scripts.command: tfapp:image     site.global.run.mode: docker     PASS
        site.global.user.scripts.command: tfapp:image     site.global.run.mode: local      WARNING
    """
    for component in package.components:
        values = package.config.components.get(component.name, {})
        command, mode = setting(values, "user.scripts.command"), setting(values, "run.mode")
        if command and command.text.strip() == IMAGE and (mode is None or mode.text != "docker"):
            message = f"'{IMAGE}' is for run mode docker: nothing else tells the image's command"
            hint = "`docker image inspect IMAGE` shows its Entrypoint and Cmd: write them here"
            yield Found(command.at, message, hint, WARNING)


@rule("entry-syntax", "metainfo", "appConfig")
def entry_syntax(package: AppPackage) -> Iterator[Found]:
    """A user's program that Python cannot read.

    Judged by the Python that runs tfapp, where programs run by it: a component that names another
    one, by `site.global.python.*` or a Docker image, has its program read by that before it is
    submitted. Reported at the line and column in the program.

        if x > 1:     PASS
        if x > 1      FAIL

    A notebook is no program either; that is reported at the value of
    `site.global.user.scripts.entry`.
    """
    for value in settings(package, "user.scripts.entry"):
        if value.text.endswith(".ipynb"):
            hint = f"`jupyter nbconvert --to script {value.text}` writes one"
            yield Found(value.at, f"'{value.text}' is a notebook, not a program", hint)
    for at, text in _own_entries(package):
        yield from _check_syntax(text, at, "program", "")


@rule("entry-interpreter", "metainfo", "appConfig")
def entry_interpreter(package: AppPackage) -> Iterator[Found]:
    """A user's program of which neither its name nor its first line says what runs it.

    The script of tfapp's own package runs .py, .pyw and .pyz by Python, programs for the processor
    as they are, and others by the interpreter of their `#!` line, else by bash. Reported at the
    program; an error where it is Python.

        train.sh                                             PASS
        train     #!/usr/bin/env python3                     PASS
        train     without such a line, and bash reads it     WARNING
        train     without such a line, and it is Python      FAIL
    """
    ours = [component for component in package.components if runs_as_ours(component, package)]
    for entry in sorted({_entry(component, package) for component in ours} - {""}):
        name = entry.rpartition("/")[2]
        if name.lower().endswith((*PYTHON_SUFFIXES, ".sh", ".bash", ".ipynb")):
            continue  # entry-syntax tells a notebook
        for at, text in _read(entry, package):
            if text.startswith((b"#!", b"\x7fELF")):
                continue
            if any(_imported(text)):
                message = f"'{name}' is Python without a `#!` line, and bash would run it"
                yield Found(at, message, f"call it {name}.py, or begin it with {_PYTHON_LINE}")
            else:
                message = f"nothing says what runs '{name}': bash does"
                hint = f"call it {name}.sh, or begin it with #!/bin/bash, or with the line of its "
                yield Found(at, message, f"{hint}interpreter", WARNING)


@rule("slider-script", "metainfo")
def slider_script(package: AppPackage) -> Iterator[Found]:
    """A component's script that is written for Slider's agents.

    Reported at the import.

        from tfapp.script import Script           PASS
        from resource_management import *         FAIL
    """
    for script in sorted({component.script for component in package.components}):
        if script not in package.source.files():
            continue  # missing-script
        with contextlib.suppress(TfappError):  # script-syntax
            text, at = package.source.read(script), place(package.source, script)
            for line, column in _imports_of(text, "resource_management"):
                yield Found(
                    Position(at.file, line, column),
                    "the script is one of Slider: it imports resource_management",
                    "write start() for tfapp.script.Script, or take the script of the TensorFlow "
                    "package; docs/slider.md has both side by side",
                )


@rule("keras-3", "metainfo", "appConfig")
def keras_3(package: AppPackage) -> Iterator[Found]:
    """A program that imports keras, and trains by `fit` under a strategy of several machines.

    From TensorFlow 2.16 on, `import keras` is Keras 3, whose `fit` fails there. `tf.keras` is Keras
    2 where tf-keras is installed. Reported at the import. In a program with .fit():

        from tensorflow import keras     with MultiWorkerMirroredStrategy     PASS
        import keras                     without a strategy of machines       PASS
        import keras                     with MultiWorkerMirroredStrategy     WARNING
    """
    for at, text in _own_entries(package):
        strategy = next((name for name in _OF_MACHINES if name in text), b"").decode()
        if strategy and b".fit(" in text:
            for line, column in _imports_of(text, "keras"):
                yield Found(
                    Position(at.file, line, column),
                    f"with Keras 3, fit() fails under {strategy}",
                    "write `from tensorflow import keras`, and install tf-keras: see the limits in "
                    "docs/failures.md",
                    WARNING,
                )


def _imports_of(text: bytes, package: str) -> Iterator[tuple[int, int]]:
    """Line and column, from 1, of each import of `package` or a module of it."""
    return ((line, column) for name, line, column in _imported(text) if name == package)


def _imported(text: bytes) -> Iterator[tuple[str, int, int]]:
    """The first part of the name, line and column, from 1, of each absolute import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            nodes = list(ast.walk(parsed(text)))
        except (SyntaxError, ValueError, RecursionError):  # another rule says so
            return
    for node in nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        else:
            continue
        for name in dict.fromkeys(name.partition(".")[0] for name in names):
            yield name, node.lineno, node.col_offset + 1


def _own_entries(package: AppPackage) -> Iterator[tuple[Position, bytes]]:
    """The programs that the Python of this process runs: their places and sources."""
    for entry in sorted(
        {_own_entry(component, package) for component in package.components} - {""}
    ):
        yield from _read(entry, package)


def _read(entry: str, package: AppPackage) -> Iterator[tuple[Position, bytes]]:
    """The place and the content of a program, unless it cannot be read."""
    with contextlib.suppress(OSError, TfappError):  # it is read again when it is shipped
        if entry in package.user_files:
            file = package.user_files[entry]
            yield Position(os.fspath(file)), file.read_bytes()
        elif FILES + entry in package.source.files():  # else missing-entry
            name = FILES + entry
            yield place(package.source, name), package.source.read(name)


def _entry(component: Component, package: AppPackage) -> str:
    """The program of a component, "" where none is looked for."""
    values = package.config.components.get(component.name, {})
    entry = setting(values, "user.scripts.entry")
    if entry is None or any(entry.placeholders()) or unsafe_reason(entry.text):
        return ""
    return entry.text if is_looked_for(component, package) else ""


def _own_entry(component: Component, package: AppPackage) -> str:
    """The program of a component that the Python of this process runs, "" for none."""
    values = package.config.components.get(component.name, {})
    entry = _entry(component, package)
    if not entry.endswith(".py"):
        return ""
    mode = setting(values, "run.mode")
    others = (setting(values, key) for key in OTHER_PYTHONS)
    given = any(value is not None and not value.is_default for value in others)
    return "" if given or (mode is not None and mode.text != "local") else entry


def _where_the_entry_is(entry: str, shipped: Collection[str]) -> str:
    below = entry[len(FILES) :] if entry.startswith(FILES) else ""
    if below in shipped:
        return f"write '{below}': the path begins below {FILES}"
    programs = sorted(name for name in shipped if name.endswith((".py", ".sh")))
    first, *arguments = entry.removeprefix("python3 ").removeprefix("python ").split() or [""]
    if first in shipped:
        more = ", and its arguments into site.global.user.scripts.args" if arguments else ""
        return f"write '{first}'{more}; Python runs it where its name ends in .py"
    otherwise = f"put it into the package's {FILES}, or give it with --files"
    return did_you_mean(entry, programs, otherwise)


def is_looked_for(component: Component, package: AppPackage) -> bool:
    """Whether the program that user.scripts.entry names has to be there for `component`."""
    values = package.config.components.get(component.name, {})
    command, entry = setting(values, "user.scripts.command"), setting(values, "user.scripts.entry")
    if command is not None:
        return False
    if entry is None or not entry.is_default:
        return entry is not None
    return component.role in TRAINING_ROLES and reads_entry(component, package)


def reads_entry(component: Component, package: AppPackage) -> bool:
    """Whether a component's script runs what user.scripts.entry names."""
    try:
        source = package.source.read(component.script)
    except TfappError:  # missing-script, unsafe-path or script-syntax says so
        return False
    return any(words in source for words in READS)


def knows_its_program(component: Component, package: AppPackage) -> bool:
    """Whether a component's script runs a program that no setting names."""
    values = package.config.components.get(component.name, {})
    entry = setting(values, "user.scripts.entry")
    return bool(entry and entry.is_default) and not reads_entry(component, package)


def runs_as_ours(component: Component, package: AppPackage) -> bool:
    """Whether a component has the script of tfapp's own package."""
    ours = app_packages_dir() / "tensorflow" / component.script
    try:
        return ours.is_file() and ours.read_bytes() == package.source.read(component.script)
    except TfappError:  # see is_looked_for
        return False
