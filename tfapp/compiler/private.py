"""The environment of the user's programs, and the values that must not appear in a report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from tfapp.compiler.settings import ENVIRONMENT, effective
from tfapp.contract.job import MIN_SECRET, Private
from tfapp.package.model import AppPackage
from tfapp.package.safety import is_reserved_variable
from tfapp.problems import Problem

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


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
    otherwise a plain EXPERIMENT=keras would turn tf_keras into tf_[secret]."""
    env = {name: {**own, **environment, **secrets} for name, own in configured.items()}
    return Private(env=env, redact=_redacted(secrets.values()))


def check_credentials(package: AppPackage, secrets: Mapping[str, str]) -> Iterator[Problem]:
    """Credentials without a value, and aliases that cannot be, or already are, variables."""
    for alias, value in package.config.credentials.items():
        if not is_free_name(alias):
            message = f"credential {alias!r} cannot be an environment variable of that name"
            hint = "Programs get a credential as a variable: letters, digits and _, and no name "
            hint += "that tfapp, Skein or YARN set themselves."
            yield Problem(value.key_at, "credential", message, hint=hint)
        for component in package.components:
            own = effective(package, component.name).get(ENVIRONMENT + alias)
            if own:
                message = f"{ENVIRONMENT}{alias} is also a credential (at {value.key_at})"
                yield Problem(own.key_at, "credential", message, hint="Keep one of the two.")
        if alias not in secrets:
            message = f"the value of credential {alias!r} was not given"
            yield Problem(value.at, "credential", message)


def _redacted(values: Iterable[str]) -> tuple[str, ...]:
    """The values, and each line of one of its own: reports are cut between lines."""
    lines = {line.strip() for value in values for line in value.splitlines()}
    found = [text for text in {*values, *lines} if len(text) >= MIN_SECRET]
    return tuple(sorted(found, key=lambda text: (-len(text), text)))
