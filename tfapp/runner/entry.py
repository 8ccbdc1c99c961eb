"""The user's program, for the scripts of packages: its file, the command that runs it, and what its
Python has installed."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import signal
import sys
import time
import zipfile
from collections.abc import Sequence
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tfapp.contract.names import HDFS_SCHEMES, OPENED_SCHEMES
from tfapp.runner import tensorflow_env
from tfapp.runner.tensorflow_env import without_proxy as without_proxy
from tfapp.script import Context, Handle, Program, ProgramMissingError, ScriptError

SECOND_SIGNAL = 5.0  # seconds after which a program that a library keeps alive gets SIGINT
AFTER_PYTHON = 0.5  # seconds for what is left of a program whose Python has ended
LOOK_EVERY = 0.1  # seconds

# The command that is the image's own.
IMAGE = "tfapp:image"
PROBE_LIMIT = 120.0  # seconds; importing TensorFlow takes a few


def look(modules, folders, find_spec):  # type: ignore[no-untyped-def]
    """Which of `modules` are `missing`, and the `versions` of Python, and of JAX, Keras, KerasTuner
    and TensorFlow where they can be known. Imports none of them. `folders` come before those where
    `find_spec` looks."""
    names = {
        "JAX": ("jax", "jax"),
        "Keras": ("keras", "keras(_nightly)?"),
        "KerasTuner": ("keras_tuner", "keras_tuner"),
        "TensorFlow": ("tensorflow", "(tensorflow|tf_nightly)(_(cpu|cpu_aws|gpu|intel|macos))?"),
    }
    wanted = {*modules, *(module for module, _ in names.values())}
    found = {name: PathFinder.find_spec(name, folders) or find_spec(name) for name in wanted}
    versions = {"Python": ".".join(map(str, sys.version_info[:3]))}
    for name, (module, distribution) in names.items():
        for folder in getattr(found[module], "submodule_search_locations", None) or ():
            for path in Path(folder).parent.glob("*.dist-info"):
                match = re.match(distribution + "-([0-9].*)", path.stem)
                if match:
                    versions[name] = match.groups()[-1]
    return {"missing": [name for name in modules if found[name] is None], "versions": versions}


# Run by the program's interpreter in the program's folder and environment, as the program will
# be. Its own modules are not looked for in that folder.
PROBE = f"""
import sys
folder = sys.path.pop(0)
import json, os, re
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
{inspect.getsource(look)}
modules, schemes = json.loads(sys.argv[1])
hooks = [one for one in sys.meta_path if type(one).__name__ == "UntilTensorFlow"]
begins = any(one.opens for one in hooks)  # before a search, which removes it
told = look(modules, [folder], find_spec)
sys.path.insert(0, folder)
if schemes:
    given, why = [], ""
    for scheme in set(schemes) & set({OPENED_SCHEMES!r}) if begins else ():
        library = "hdfs_native" if scheme in {HDFS_SCHEMES!r} else "obstore"
        try:
            __import__(library)
            given.append(scheme)
        except ImportError as error:
            why = "what travels does not fit to Python " + told["versions"]["Python"] + ": "
            why += str(error) + "; install " + library + " beside TensorFlow"
    if not set(schemes) <= set(given):
        import tensorflow as tf
        try:
            import tensorflow_io
        except ImportError:
            pass
        given += tf.io.gfile.get_registered_schemes()
        if not os.environ.get("TFAPP_STORAGE_PACKAGES"):
            why = "site.global.storage is false, or its packages did not travel"
        elif not begins and (sys.flags.ignore_environment or sys.flags.no_site):
            why = "this Python is started with -E, -I or -S, so that tfapp adds nothing to it"
            why += "; build the PEX with `pex --venv`" * ("PEX" in os.environ)
        elif sys.version_info < (3, 10):
            why = "that needs Python 3.10 or newer"
    told.update(schemes=given, why=why)
print(json.dumps(told))
"""

# By these variables an interpreter looks for modules elsewhere.
PLACES = ("HOME", "PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONPATH", "PYTHONUSERBASE")

INSTALL = (
    "is not installed in {}; install it, add it to site.global.python.packages, or set "
    "site.global.python.executable"
)


def is_command(context: Context) -> bool:
    """Whether the program is a command that is there, and not a file below files/."""
    return bool(context.config.get("user.scripts.command"))


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


def link_file(context: Context) -> None:
    """Makes the link that site.global.user.scripts.link asks for. ScriptError when it cannot."""
    link, _, name = context.config.get("user.scripts.link", "").partition("=")
    if not link or context.component.docker is not None:
        return
    partial = f"{link}.tfapp"
    try:
        os.makedirs(os.path.dirname(link), exist_ok=True)
        if os.path.lexists(partial):
            os.unlink(partial)
        os.symlink(context.files_dir / name, partial)
        os.replace(partial, link)  # also over that of another run
    except OSError as error:
        raise ScriptError(
            f"site.global.user.scripts.link: {link} cannot be made: {error.strerror}; its folder "
            "must be one that the program's user can write"
        ) from error


def is_python(path: Path) -> bool:
    return path.suffix.lower() in (".py", ".pyw", ".pyz")


def is_pex(path: Path) -> bool:
    """Whether it is a program with all that it needs, which starts a Python of its own."""
    with contextlib.suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(path) as file:
        return "PEX-INFO" in file.namelist()
    return False


def entry_command(context: Context, path: Path) -> tuple[str, ...]:
    """How the program's file is run: Python, an executable, the interpreter of its first line, or
    else bash."""
    if is_python(path):
        return (context.python, str(path))
    with open(path, "rb") as file:
        first = file.readline(1 << 10).rstrip()
    # The kernel runs no script that does not name its interpreter.
    if os.access(path, os.X_OK) and (path.suffix != ".sh" or first[:2] == b"#!"):
        return (str(path),)
    # As the kernel does: all words after the interpreter are one argument.
    words = os.fsdecode(first[2:]).split(maxsplit=1) if first[:2] == b"#!" else []
    return (*(words or ["bash"]), str(path))


def is_call(path: Path) -> bool:
    """Whether the entry runs a Python call's functions, which may do without TensorFlow. What they
    import was looked for before submission."""
    return (path.parent / "call.json").is_file()


def restarts(context: Context) -> str:
    """What a restart means where no other instance sees the checkpoints."""
    alone = context.job.trains_alone(member.role for member in context.members)
    return "" if alone else "; after any restart all instances begin anew, with empty folders"


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


def probe(
    context: Context,
    modules: Sequence[str],
    schemes: Sequence[str] = (),
    command: Sequence[str] = (),
) -> dict[str, Any]:
    """What `look` finds in the program's interpreter, or in that which `command` starts, and, if
    `schemes` are asked for, the `schemes` of URLs that its TensorFlow can open, and `why` not
    others. TensorFlow is imported only for those that tfapp does not give it. ScriptError when the
    interpreter cannot be asked."""
    if not schemes and is_this_interpreter(context):
        return look(modules, [str(context.work_dir)], find_spec)
    asked = json.dumps([list(modules), list(schemes)])
    argv = [*(command or (context.python,)), "-c", PROBE, asked]
    try:
        done = context.execute(argv, PROBE_LIMIT)
    except ProgramMissingError as error:
        raise ScriptError(f"{error}; set site.global.python.executable") from error
    if done.code != 0:
        raise ScriptError(f"{argv[-4]} failed:\n{done.errors.strip()[-2000:]}")
    return json.loads(done.output.splitlines()[-1])


def is_this_interpreter(context: Context) -> bool:
    """Whether the program's interpreter finds modules where this one does."""
    return (
        context.component.docker is None
        and context.python == sys.executable
        and all(own_place(context, name) == os.environ.get(name) for name in PLACES)
    )


def own_place(context: Context, name: str) -> str | None:
    """A variable of the program, without what tfapp puts before PYTHONPATH: no module that a
    program imports is there."""
    value = context.env.get(name)
    if name != "PYTHONPATH" or value is None or "TFAPP_STORAGE_PACKAGES" not in context.env:
        return value
    return value.partition(os.pathsep)[2] or None


def interpreter(context: Context) -> str:
    """How messages call the program's interpreter."""
    docker = context.component.docker
    return context.python if docker is None else f"{context.python} of image {docker.image}"


def program(context: Context, env: dict[str, str]) -> Program:
    """The user's program with its arguments. `env`: more variables for it."""
    args = context.words("user.scripts.args")
    if not is_command(context):
        return Program((*entry_command(context, entry_file(context)), *args), env)
    folder, command = context.config.get("user.scripts.dir"), context.words("user.scripts.command")
    cwd = Path(folder) if folder else None
    if command == (IMAGE,):
        return Program(args, env, cwd, of_image=True, entry_point=True)
    return Program((*command, *args), env, cwd, of_image=True)


def addresses(context: Context, role: str) -> list[str]:
    """ "host:port" of each instance of a role. NoAddressError when one exports none."""
    return tensorflow_env.cluster_spec(context.members, (role,))[role]


def warn_of_checkpoints(context: Context) -> None:
    """Writes a warning where no other instance sees the checkpoints."""
    if not context.config.get("user.checkpoint.prefix"):
        print(
            "tfapp: warning: site.global.user.checkpoint.prefix is not set: checkpoints go to "
            f"{context.checkpoint_dir}, which no other instance sees and which ends with "
            f"this container{restarts(context)}",
            flush=True,
        )


def stop(context: Context, handle: Handle, catchers: tuple[str, ...]) -> None:
    """Sends the signal in site.global.stop.signal, and SIGINT to a program that trains on because a
    library has caught it. `catchers`: how the names of these libraries begin. At its end such a
    library may wait for others, which wait for this one in the middle of a step: no code of the
    program is left by then, and it is ended."""
    asked = time.time()
    number = signal.Signals[context.config.get("stop.signal", "SIGTERM")]
    if not Path(handle.signal(number)).name.startswith(catchers):
        return
    end = time.monotonic() + (0 if has_saved(context) else SECOND_SIGNAL)
    while handle.running() and time.monotonic() < end:
        time.sleep(LOOK_EVERY)
    if not handle.running() or touched_since(context, asked):
        return
    handle.signal(signal.SIGINT)
    while handle.catches(signal.SIGINT):  # Python gives its handler up as it ends
        time.sleep(LOOK_EVERY)
    time.sleep(AFTER_PYTHON)
    handle.signal(signal.SIGINT)


def has_saved(context: Context) -> bool:
    """Whether the program has saved because it was asked to, and waits for its end."""
    with contextlib.suppress(OSError, ValueError):
        told = json.loads(Path(context.env.get("TFAPP_SAVED_FILE", "")).read_bytes())
        return isinstance(told, dict) and told.get("saved") is not None
    return False


def touched_since(context: Context, moment: float) -> bool:
    """Whether the program has touched its progress file, by which it says that it goes on to save
    something."""
    with contextlib.suppress(OSError):
        return os.stat(context.env.get("TFAPP_PROGRESS_FILE", "")).st_mtime > moment
    return False
