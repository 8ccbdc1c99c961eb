"""Checks the requirements of the Spark engine on the driver's machine."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tfapp.engines.diagnosis import OK, PROBLEM, WARNING, Finding
from tfapp.engines.spark import session
from tfapp.engines.spark.executor_python import LIMIT, asked
from tfapp.errors import TfappError

if TYPE_CHECKING:
    from pyspark import SparkContext


def examine(environ: Mapping[str, str], python: str | None = None) -> Iterator[Finding]:
    """All checks. `python`: the interpreter of executors to check. For that a session is started if
    this process has none; without `python` nothing is started."""
    yield examine_pyspark()
    yield examine_java(environ)
    if importlib.util.find_spec("pyspark") is not None:
        yield examine_session()
        yield examine_protection(environ)
        if python is not None or session.active_context() is not None:
            yield examine_executor(environ, python or "python3")


def examine_pyspark() -> Finding:
    if importlib.util.find_spec("pyspark") is None:
        return Finding("pyspark", PROBLEM, "not installed", f"Install it: {session.INSTALL}.")
    try:
        version = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:  # of a Spark distribution, by PYTHONPATH
        version = "of unknown version"
    if version.startswith(("1.", "2.", "3.0", "3.1", "3.2", "3.3", "3.4")):
        return Finding("pyspark", PROBLEM, version, "The engine needs Spark 3.5 or newer.")
    return Finding("pyspark", OK, version)


def examine_java(environ: Mapping[str, str]) -> Finding:
    home = environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else environ.get("PATH"))
    if found is None:
        hint = "Install Java 17, or set JAVA_HOME."
        return Finding("java", PROBLEM, "none in PATH, and no JAVA_HOME", hint)
    return Finding("java", OK, found)


def examine_session() -> Finding:
    context = session.active_context()
    if context is None:
        text = f"none in this process: a command opens the one of {session.MASTER_KEY}"
        return Finding("session", OK, text)
    found, free = session.slots(context)
    return Finding("session", OK, f"{context.master}, {found} slots, {free} free")


def examine_executor(environ: Mapping[str, str], python: str) -> Finding:
    """Checks that an executor can run containers by `python`; "python3" means the interpreter of
    the executor."""
    context = session.active_context()
    if context is not None:
        return _examine_executor(context, python)
    master = defaults(environ).get("spark.master")
    if master is None:
        text = "none can be asked: this process has no session, and spark-defaults.conf no master"
        return Finding("executors", WARNING, text, "Set spark.master there.")
    try:
        context = session.open_context("tfapp doctor", master, ())
    except TfappError as error:
        return Finding("executors", PROBLEM, error.message, error.hint)
    try:
        return _examine_executor(context, python)
    finally:
        context.stop()


def _examine_executor(context: SparkContext, python: str) -> Finding:
    answer = asked(context, python)
    slots, free = session.slots(context)
    if answer is None:
        text = f"none has run a task in {LIMIT:g} s: there are {slots} slots, {free} free"
        return Finding("executors", WARNING, text, "Containers wait for slots as this did.")
    if answer:
        hint = "Set PYSPARK_PYTHON to a Python of this version that has grpcio and protobuf."
        return Finding("executors", PROBLEM, f"Python {answer}", hint)
    return Finding("executors", OK, f"{python} runs containers there; {slots} slots")


def examine_protection(environ: Mapping[str, str]) -> Finding:
    """Checks whether data that travels to executors is protected on the network, by the settings of
    this process's session, or else by those of a new one."""
    context = session.active_context()
    said = session.unprotected(defaults(environ) if context is None else context.getConf())
    if said is None:
        return Finding("protection", OK, "Spark's authentication and encryption are on")
    return Finding("protection", WARNING, *said)


def defaults(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The settings in spark-defaults.conf, {} if there is no such file."""
    home = environ.get("SPARK_HOME")
    folder = environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    try:
        text = Path(folder or "", "spark-defaults.conf").read_text() if folder else ""
    except OSError:
        text = ""
    # A name, then its value after spaces, "=" or ":", as in Java's properties.
    lines = (re.match(r"\s*([^#!\s=:]+)\s*[=:]?\s*(.*)", line) for line in text.splitlines())
    return {match[1]: match[2].strip() for match in lines if match}
