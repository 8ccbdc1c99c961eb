"""A session: a command of the user's in the container of an instance, beside its program.

A client asks for one by KEY_EXEC. The coordinator notes that and tells the runner by KEY_SESSION.
The runner offers a port, at which a process of its own waits for the one who has the owner's key
(tfapp.contract.channel).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

from tfapp.contract.encoding import Coded
from tfapp.frozen import frozen

OFFER_LIMIT = 20.0  # seconds for which the runner waits at the port that it has offered
ASK_LIMIT = 15.0  # seconds for which a client waits for the offer


@frozen
class SessionRequest(Coded):
    """Asks the runner of `instance` for a port."""

    id: str
    instance: str


@frozen
class SessionOffer(Coded):
    """The port at which the runner waits for OFFER_LIMIT seconds. `why`: why there is none."""

    id: str
    instance: str
    host: str
    port: int = 0
    why: str = ""


@frozen
class Welcome(Coded):
    """What the process of a session gets from its runner. `certificate`, `key`: the application's,
    in PEM. `owner`: the certificate of the only one who is let in. `host`: under which the client
    comes. `ports`: those that are allowed. `env`, `folder`: of the command. `container`: Docker's
    id of the one in which it runs, "" for none; there it has `env` besides the program's own."""

    certificate: str
    key: str
    owner: str
    host: str
    ports: str
    env: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    folder: str = ""
    container: str = ""


@frozen
class Command(Coded):
    """What is to run. `argv`: () for a shell. `term`: the kind of the client's terminal, as its
    TERM says it, "" for no terminal."""

    argv: tuple[str, ...] = ()
    term: str = ""
    rows: int = 24
    columns: int = 80

    def encoded(self) -> bytes:
        """As JSON, with the surrogates that stand in `argv` for bytes that are no UTF-8."""
        return json.dumps(dataclasses.asdict(self)).encode()
