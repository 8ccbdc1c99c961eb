"""The registry's credential is none.

`site.global.docker.credential` names one of `credentials`, whose value is USER:PASSWORD.

    credentials: {REGISTRY: "env:REGISTRY"}    docker.credential: REGISTRY    PASS
    credentials: {}                            docker.credential: REGISTRY    FAIL
"""

from __future__ import annotations

from collections.abc import Iterator

from tfapp.close_match import close_match
from tfapp.package.model import AppPackage
from tfapp.package.rules.written import did_you_mean, effective_values
from tfapp.problems import Problem

CODE = "docker-credential"
NEEDS = ("appConfig",)
KEY = "site.global.docker.credential"


def check(package: AppPackage) -> Iterator[Problem]:
    """Reports at the value."""
    known = package.config.credentials
    for _, key, value in effective_values(package):
        if key == KEY and value.text and value.text not in known:
            hint = did_you_mean(
                close_match(value.text, list(known)),
                f"declare it in credentials, as in {value.text}: 'env:{value.text}'",
            )
            message = f"there is no credential '{value.text}'"
            yield Problem(value.at, CODE, message, hint=hint)
