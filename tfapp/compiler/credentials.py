"""Credentials: their values are read where the submitting user keeps them, checked, and put into
the environment of the programs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tfapp.compiler.settings import ENVIRONMENT
from tfapp.contract.job import MIN_SECRET, Private
from tfapp.contract.on_end import OnEnd
from tfapp.errors import UsageError
from tfapp.package.model import AppPackage, ConfigValue, setting
from tfapp.package.safety import is_reserved_variable
from tfapp.problems import Problem

MAX_CREDENTIAL = 64 * 1024  # bytes; an environment variable holds 128 KiB at most

_MOST = 128 * 1024  # bytes of NAME=VALUE and its end (MAX_ARG_STRLEN)
_MOST_OF_ALL = 2 * 1024**2  # of all of them: a quarter of the usual stack

_FILE, _VARIABLE, _HOME = "file:", "env:", "~/"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def read_credentials(
    credentials: Mapping[str, ConfigValue], environ: Mapping[str, str], folder: Path
) -> tuple[dict[str, str], tuple[Problem, ...]]:
    """alias -> value, and a Problem for each value that cannot be read. `env:NAME` is looked up in
    `environ`, the submitting user's environment. `file:PATH` is read without the line end at its
    end; a relative path begins at `folder`."""
    values: dict[str, str] = {}
    problems: list[Problem] = []
    for alias, source in credentials.items():
        try:
            values[alias] = _checked(_read(source.text, environ, folder))
        except _UnusableError as error:
            message = f"credential {alias!r}: {error}"
            hint = "A credential is a file or an environment variable of the user who submits."
            problems.append(Problem(source.at, "credential", message, hint=hint))
    return values, tuple(sorted(problems))


class _UnusableError(Exception):
    """A credential cannot be used. The message gives the reason, never the value."""


def _read(source: str, environ: Mapping[str, str], folder: Path) -> str:
    if source.startswith(_VARIABLE):
        name = source[len(_VARIABLE) :]
        if name not in environ:
            raise _UnusableError(f"the environment variable {name} is not set")
        return environ[name]
    if source.startswith(_FILE):
        return _read_file(_path(source[len(_FILE) :], environ, folder))
    raise _UnusableError(f"expected file:PATH or env:NAME, found {source!r}")


def _path(text: str, environ: Mapping[str, str], folder: Path) -> Path:
    if text.startswith(_HOME) and environ.get("HOME"):
        return Path(environ["HOME"], text[len(_HOME) :])
    return folder / text


def _read_file(path: Path) -> str:
    try:
        with path.open("rb") as handle:
            data = handle.read(MAX_CREDENTIAL + 1)
    except OSError as error:
        raise _UnusableError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > MAX_CREDENTIAL:
        raise _UnusableError(f"{path} is longer than {MAX_CREDENTIAL} bytes")
    text = data.decode(errors="surrogateescape")
    return text[:-1].removesuffix("\r") if text.endswith("\n") else text


def _checked(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _UnusableError("its value is not UTF-8 text") from None
    if "\0" in text:
        raise _UnusableError("its value holds a NUL, which no environment variable can")
    return text


def is_free_name(name: str) -> bool:
    """Whether a user may set the environment variable `name`."""
    return bool(_NAME.match(name)) and not is_reserved_variable(name)


def build_private(
    configured: Mapping[str, Mapping[str, str]],
    environment: Mapping[str, str],
    secrets: Mapping[str, str],
) -> Private:
    """Each component's environment: `env.*` of appConfig, then `environment`, then `secrets`. All
    of it travels in the private file. Only the values of `secrets` are struck out of logs:
    otherwise a plain EXPERIMENT=keras would turn tf_keras into tf_[secret]. UsageError for more
    than a process can be given."""
    env = {name: {**own, **environment, **secrets} for name, own in configured.items()}
    for component, variables in env.items():
        _check_sizes(component, variables)
    return Private(env=env, redact=_redacted(secrets.values()))


def _check_sizes(component: str, variables: Mapping[str, str]) -> None:
    sizes = {name: len(f"{name}={value}\0".encode()) for name, value in variables.items()}
    hint = "Write the value to a file, and ship that with --files."
    for name, size in sizes.items():
        if size > _MOST:
            message = f"the environment variable {name} of {component} has {size} bytes"
            raise UsageError(f"{message}, and Linux gives a process at most {_MOST} in one", hint)
    if sum(sizes.values()) > _MOST_OF_ALL:
        message = f"the environment variables of {component} have {sum(sizes.values())} bytes"
        raise UsageError(f"{message}, and Linux gives a process {_MOST_OF_ALL} in all", hint)


def check_credentials(package: AppPackage, secrets: Mapping[str, str]) -> Iterator[Problem]:
    """Credentials without a value, and aliases that cannot be, or already are, variables."""
    for alias, value in package.config.credentials.items():
        if not is_free_name(alias):
            message = f"credential {alias!r} cannot be an environment variable of that name"
            hint = "Programs get a credential as a variable: letters, digits and _, and no name "
            hint += "that tfapp or the cluster sets itself."
            yield Problem(value.key_at, "credential", message, hint=hint)
        for component in package.components:
            own = package.config.components[component.name].get(ENVIRONMENT + alias)
            if own:
                message = f"{ENVIRONMENT}{alias} is also a credential (at {value.key_at})"
                yield Problem(own.key_at, "credential", message, hint="Keep one of the two.")
        if alias not in secrets:
            message = f"the value of credential {alias!r} was not given"
            yield Problem(value.at, "credential", message)


def check_on_end(package: AppPackage, secrets: Iterable[str]) -> Iterator[Problem]:
    """An entry that site.global.on.end names and that is none of `secrets`."""
    value = setting(package.config.global_, "on.end")
    on_end = OnEnd.of(value.text) if value is not None else None
    if value is not None and on_end is not None and on_end.credential not in ("", *secrets):
        alias = on_end.credential
        hint = f"Declare it in credentials, as in {alias}: 'env:{alias}', or give it by "
        hint += "--secret-env-file."
        yield Problem(value.at, "credential", f"there is no credential {alias!r}", hint=hint)


def _redacted(values: Iterable[str]) -> tuple[str, ...]:
    """The values, and each line of one of its own: reports are cut between lines."""
    lines = {line.strip() for value in values for line in value.splitlines()}
    found = [text for text in {*values, *lines} if len(text) >= MIN_SECRET]
    return tuple(sorted(found, key=lambda text: (-len(text), text)))
