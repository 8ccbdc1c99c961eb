"""The environment of the user's programs, and what must not appear in a report."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tfapp.compiler.settings import ENVIRONMENT, effective
from tfapp.contract.private import Private
from tfapp.package.model import AppPackage
from tfapp.package.rules import reserved_env
from tfapp.problems import Problem

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# What appConfig may not set by `env.NAME` no credential or environment file may set either.
_RESERVED = (*reserved_env.NAMES, "TF_CONFIG")
_RESERVED_PREFIXES = ("SKEIN_", "TFAPP_")

# A shorter value would strike out half of every line, and gives nothing away.
MIN_REDACTED = 4
# A line of a key file is a secret of its own: reports are cut between lines.
MIN_REDACTED_LINE = 8


def is_free_name(name: str) -> bool:
    """Whether a user may set the environment variable `name`."""
    reserved = name in _RESERVED or name.startswith(_RESERVED_PREFIXES)
    return bool(_NAME.match(name)) and not reserved


def build_private(
    configured: Mapping[str, Mapping[str, str]],
    environment: Mapping[str, str],
    secrets: Mapping[str, str],
) -> Private:
    """Each component's environment: `env.*` of appConfig, then the environment files given on
    the command line, then the credentials, each a variable named like its alias."""
    env = {name: {**own, **environment, **secrets} for name, own in configured.items()}
    return Private(env=env, redact=_redacted((*environment.values(), *secrets.values())))


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


def _redacted(values: tuple[str, ...]) -> tuple[str, ...]:
    """Longest first, so that no value is cut by a shorter one inside it."""
    found = {value for value in values if len(value) >= MIN_REDACTED}
    for value in values:
        lines = [line.strip() for line in value.splitlines()]
        found.update(line for line in lines if len(line) >= MIN_REDACTED_LINE)
    return tuple(sorted(found, key=lambda value: (-len(value), value)))
