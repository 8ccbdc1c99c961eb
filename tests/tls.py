"""A certificate for servers of tests on this machine."""

import datetime
import ipaddress
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def make_authority(folder: Path) -> tuple[Path, Path]:
    """The files of a new authority's certificate, and of one that it has given to 127.0.0.1, with
    its private key."""
    authority, server = folder / "authority.pem", folder / "server.pem"
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in "ab"]
    now, day = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(days=1)
    alternatives = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    for path, key, name in zip((authority, server), keys, names):
        constraints = x509.BasicConstraints(ca=path == authority, path_length=None)
        made = (
            x509.CertificateBuilder(names[0], name, key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
            .add_extension(alternatives, critical=False)
            .add_extension(constraints, critical=True)
            .sign(keys[0], hashes.SHA256())
        )
        path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    with server.open("ab") as file:
        file.write(keys[1].private_bytes(serialization.Encoding.PEM, *form))
    return authority, server


def make_certificate(path: Path) -> ssl.SSLContext:
    """Writes a certificate of 127.0.0.1, by which it is also known as its own issuer. Returns
    what a server shows it with."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    now, day = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(days=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context
