"""The key pair of a run. It serves as server certificate, client certificate and trust root."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

_PEM = re.compile(rb"\s*-----BEGIN .+-----END [A-Z ]+-----\s*", re.DOTALL)


def new_credentials(now: float) -> tuple[bytes, bytes]:
    """A certificate with the name that Skein's clients expect, and its private key, in PEM.

    `now`: seconds since 1970. The certificate is valid from one day before, for clocks that are
    slow, until ten years after.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "skein-internal")])
    issued = datetime.datetime.fromtimestamp(now, datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(issued - datetime.timedelta(days=1))
        .not_valid_after(issued + datetime.timedelta(days=3650))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("skein-internal")]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private


def read_pem(path: Path) -> bytes:
    """The content of a file in PEM. FileNotFoundError; ValueError if it cannot be read or is not
    whole: gRPC aborts a process that gives it an empty one."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    if not _PEM.fullmatch(content):
        raise ValueError(f"{path} is damaged")
    return content
