"""`tfapp doctor --storage` from a container: a small application of tfapp's own checks the URL with
the credentials, and by the way, that programs have, and returns what it found."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

from tfapp.api.arguments import Call
from tfapp.api.call import submitted
from tfapp.api.handle import quiet
from tfapp.compiler.options import new_name
from tfapp.contract.names import OPENED_SCHEMES
from tfapp.engines.base import Engine
from tfapp.engines.diagnosis import OK, PROBLEM, Finding
from tfapp.errors import ApplicationFailedError, InvalidPackageError, TfappError
from tfapp.launch.caller import Caller
from tfapp.problems import text_report
from tfapp.program.named import NamedFunction
from tfapp.topology import Component

LIMIT = 900.0  # seconds until it has ended: a cluster may let it wait
MEMORY = "1 GiB"

_WHERE = "storage in a container"
_LOGIN = "A container has the variables of -e and --secret-env-file, and none of this shell."


def check_there(url: str, call: Call, engine: Engine, caller: Caller) -> Iterator[Finding]:
    """Runs the application on `engine`, deletes its record, and yields what it found, or why it did
    not run. `call`: how programs are to run there. Never raises TfappError."""
    scheme = url.partition("://")[0]
    added = {} if scheme in OPENED_SCHEMES else {"site.global.storage.schemes": scheme}
    call = dataclasses.replace(
        call,
        program=NamedFunction("tfapp.storage.check", "in_plain_data", (url,)),
        components={"worker": Component(MEMORY)},
        data=url,  # so that a start fails where no URL can be opened
        retries=0,
        timeout=LIMIT,
        options={**added, **call.options},
    )
    name = new_name("doctor")
    try:
        with contextlib.ExitStack() as held:
            application = submitted(call, name, engine, quiet(caller), show=False)
            held.callback(application.destroy)
            result = held.enter_context(application).result(LIMIT)
            place, steps = result.returned["worker/0"]
    except InvalidPackageError as error:
        yield Finding(_WHERE, PROBLEM, f"{error.message}: {text_report(error.problems)}")
    except ApplicationFailedError as error:
        yield Finding(_WHERE, PROBLEM, " ".join(f"{error.message} {error.__cause__ or ''}".split()))
    except TfappError as error:
        yield Finding(_WHERE, PROBLEM, error.message, error.hint)
    else:
        yield Finding(_WHERE, OK, place)
        for step, text, hint, well in steps:
            hint = hint if well else f"{hint} {_LOGIN}".strip()
            yield Finding(f"{_WHERE}: {step}", OK if well else PROBLEM, text, hint)
