"""The Kerberos identity of the caller: from a keytab, or from the ticket that Hadoop's programs
use."""

from __future__ import annotations

import io
import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tfapp.engines.yarn.configuration import folder, read_configuration
from tfapp.errors import UnavailableError
from tfapp.frozen import frozen

# Hadoop's own names for them: its commands read them too.
KEYTAB = "KRB5KEYTAB"
PRINCIPAL = "KRB5PRINCIPAL"
CACHE = "KRB5CCNAME"
CONFIGURATION = "KRB5_CONFIG"  # of MIT's and Heimdal's programs: files, separated by colons
# Of delegation tokens, which YARN gives to containers: with them nobody needs a ticket.
TOKENS = "HADOOP_TOKEN_FILE_LOCATION"

_OR_KEYTAB = f"or set {KEYTAB} and {PRINCIPAL} to a keytab and its principal."
_OTHER_PLACE = re.compile(r"[A-Z]{3,}:")  # of tickets: a directory, the kernel, a daemon
_VERSION = b"\x05\x04"  # of a file of tickets, as MIT's and Heimdal's programs write it


@frozen
class Ticket:
    """A ticket-granting ticket: its principal, and its end in seconds since 1970."""

    principal: str
    expires: float


def is_asked(environ: Mapping[str, str]) -> bool:
    """Whether the cluster requires Kerberos. If the configuration does not say, a keytab in the
    environment implies it."""
    told = read_configuration(environ).get("hadoop.security.authentication")
    return told == "kerberos" or (told is None and bool(environ.get(KEYTAB)))


def java_options(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The options that make Java read the same krb5.conf as the Kerberos programs. Java accepts a
    single file."""
    files = environ.get(CONFIGURATION, "").split(os.pathsep)
    found = next((file for file in files if os.path.isfile(file)), None)
    return () if found is None else (f"-Djava.security.krb5.conf={found}",)


def find_keytab(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """The path of the keytab and its principal; None if the user's ticket is used. UnavailableError
    for an unusable keytab."""
    keytab, principal = environ.get(KEYTAB), environ.get(PRINCIPAL)
    if not keytab:
        return None
    if not os.access(keytab, os.R_OK) or not os.path.isfile(keytab):
        reason = "cannot be read" if os.path.exists(keytab) else "does not exist"
        raise UnavailableError(
            f"the Kerberos keytab {keytab} {reason}", f"{KEYTAB} names it; unset it to use kinit."
        )
    if not principal:
        raise UnavailableError(
            f"{KEYTAB} names a Kerberos keytab, and {PRINCIPAL} is not set",
            f"Set {PRINCIPAL} to whose key is in it; `klist -kt {keytab}` lists them.",
        )
    return os.path.abspath(keytab), principal


def ticket_file(environ: Mapping[str, str]) -> str:
    """The path at which Java looks for a ticket; Java treats every credential cache as a file."""
    return environ.get(CACHE, "").removeprefix("FILE:") or _default_file()


def _default_file() -> str:
    return f"/tmp/krb5cc_{os.getuid()}"


def find_ticket(environ: Mapping[str, str]) -> Ticket | None:
    """The ticket that Hadoop's programs find; None if there is none."""
    try:
        return read_ticket(Path(ticket_file(environ)).read_bytes())
    except OSError:
        return None


def read_ticket(data: bytes) -> Ticket | None:
    """The ticket-granting ticket in a credential cache; None if there is none."""
    if not data.startswith(_VERSION):
        return None
    try:
        reader = _Reader(data[len(_VERSION) :])
        reader.skip(reader.number(2))
        owner = reader.principal()
        own = f"krbtgt/{owner.rpartition('@')[2]}@"
        ends = [end for server, end in reader.credentials() if server.startswith(own)]
    except struct.error:  # it breaks off
        return None
    return Ticket(owner, float(max(ends))) if ends else None


def show(environ: Mapping[str, str], now: float) -> str:
    """Describes the caller's ticket or keytab for a cluster with Kerberos. UnavailableError if
    there is no valid one. `now`: seconds since 1970."""
    if environ.get(TOKENS):
        return f"the delegation tokens in {environ[TOKENS]}"
    keytab = find_keytab(environ)
    if keytab is not None:
        return f"the key of {keytab[1]} in {keytab[0]}"
    ticket, place = find_ticket(environ), ticket_file(environ)
    if ticket is None and _OTHER_PLACE.match(place):
        raise UnavailableError(
            f"{CACHE} is {place}, and Hadoop's programs find tickets in files alone",
            f"Set {CACHE} to FILE:{_default_file()} and run `kinit`.",
        )
    if ticket is None:
        hint = f"Run `kinit -c FILE:{place}`, {_OR_KEYTAB}"
        raise UnavailableError(f"there is no Kerberos ticket in {place}", hint)
    if ticket.expires <= now:
        hint = f"Run `kinit`, {_OR_KEYTAB}"
        raise UnavailableError(f"the Kerberos ticket of {ticket.principal} has expired", hint)
    minutes = int((ticket.expires - now) / 60)
    return f"a ticket of {ticket.principal}, good for {minutes // 60} h {minutes % 60} min"


def require(environ: Mapping[str, str], now: float) -> None:
    """UnavailableError if the cluster requires Kerberos and the caller has neither a valid ticket
    nor a keytab. `now`: seconds since 1970."""
    if is_asked(environ):
        show(environ, now)


# The words with which Java, Hadoop and Skein's driver blame Kerberos, each seen on a
# cluster: what follows tells the reason.
_COMPLAINTS = (
    re.compile(r"LoginException: (.+)"),
    re.compile(r"GSSException: .*\(Mechanism level: (.+?)\)(?:\]|$)", re.MULTILINE),
    re.compile(r"(Client cannot authenticate via:\[TOKEN, KERBEROS\])"),
    re.compile(r"(Kerberos ticket not found)"),
    re.compile(r"(SIMPLE authentication is not enabled)"),
)
_NO_KDC = re.compile(r"Connection refused|timed out|[Cc]annot (locate|find|contact)")


def complaint(text: str) -> str:
    """The part of a Java program's output that concerns Kerberos; "" if there is none."""
    found = (pattern.search(text) for pattern in _COMPLAINTS)
    return next((match[1].strip() for match in found if match), "")


def refused(environ: Mapping[str, str], text: str) -> UnavailableError:
    """The error for a failed Kerberos login. `text`: the output of a Java program."""
    reason, keytab = complaint(text), environ.get(KEYTAB)
    if reason.startswith("SIMPLE "):
        return UnavailableError(
            "the cluster asks for Kerberos, and the configuration here does not say so",
            f"hadoop.security.authentication in {folder(environ)}/core-site.xml must be kerberos.",
        )
    if _NO_KDC.search(reason):
        return UnavailableError(
            f"Kerberos' KDC does not answer: {reason}",
            "Is one up that krb5.conf names? `kinit` asks it too.",
        )
    if keytab:
        principal = environ.get(PRINCIPAL)
        reason = reason.replace("Unable to obtain password from user", "no key of it is there")
        return UnavailableError(
            f"Kerberos does not let {principal} in with {keytab}: {reason}",
            f"`kinit -kt {keytab} {principal}` must work; `klist -kt {keytab}` lists its keys.",
        )
    return UnavailableError(
        f"Kerberos does not let you in: {reason}",
        f"Run `kinit`, {_OR_KEYTAB} `klist` shows what you have.",
    )


def first_part(principal: str) -> str:
    """ "ann" for "ann/host@REALM": the user name on a cluster without rules for principals."""
    return re.split("[/@]", principal)[0]


def find_user(
    environ: Mapping[str, str], login: str, name_of: Callable[[str], str] = first_part
) -> str:
    """The caller's user name on the cluster. `login`: the name on this machine. `name_of`: maps a
    principal to the name on the cluster."""
    if not is_asked(environ):
        return environ.get("HADOOP_USER_NAME") or login
    ticket = None if environ.get(KEYTAB) else find_ticket(environ)
    principal = ticket.principal if ticket else environ.get(PRINCIPAL, "")
    return (name_of(principal) if principal else "") or login


class _Reader:
    """Parses a credential cache. struct.error at its end."""

    def __init__(self, data: bytes):
        self._data = io.BytesIO(data)

    def number(self, size: int) -> int:
        (value,) = struct.unpack({1: ">B", 2: ">H", 4: ">I"}[size], self._data.read(size))
        return value

    def skip(self, size: int) -> None:
        self._data.seek(size, io.SEEK_CUR)

    def block(self) -> bytes:
        return self._data.read(self.number(4))

    def principal(self) -> str:
        self.skip(4)  # what kind of name it is
        count = self.number(4)
        realm = self.block().decode(errors="replace")
        names = [self.block().decode(errors="replace") for _ in range(count)]
        return f"{'/'.join(names)}@{realm}"

    def credentials(self) -> Iterator[tuple[str, int]]:
        """The server and the end of each ticket."""
        while self._data.tell() < len(self._data.getbuffer()):
            self.principal()
            server = self.principal()
            self.skip(2)
            self.block()  # the key
            self.skip(8)
            ends = self.number(4)
            self.skip(4 + 1 + 4)
            for _ in ("addresses", "authorisations"):
                for _ in range(self.number(4)):
                    self.skip(2)
                    self.block()
            self.block()
            self.block()
            yield server, ends
