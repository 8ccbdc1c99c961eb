"""The cluster's certificate authority, and the kubeconfig files of those whom it vouches for."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import os
from collections.abc import Sequence
from pathlib import Path

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    raise SystemExit("cluster.py needs the package cryptography, which tfapp brings") from None

VALID = datetime.timedelta(days=365)


class Authority:
    """Signs certificates. Each pair is `NAME.crt` and `NAME.key` in `folder`; its own is `ca`."""

    def __init__(self, folder: Path):
        self.folder = folder

    def create(self) -> None:
        """Makes its own pair, and the pair of keys `sa` with which tokens are signed."""
        self.folder.mkdir(mode=0o700, parents=True)
        key = self._make_key("ca")
        name = _name("tfapp-kubernetes-cluster", ())
        usage = x509.KeyUsage(True, False, True, False, False, True, True, False, False)
        builder = _builder(name, name, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        self._write_certificate("ca", builder.add_extension(usage, True).sign(key, hashes.SHA256()))
        public = self._make_key("sa").public_key()
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        (self.folder / "sa.pub").write_bytes(public.public_bytes(serialization.Encoding.PEM, form))

    def issue(
        self, file: str, user: str, groups: Sequence[str] = (), hosts: Sequence[str] = ()
    ) -> None:
        """A pair for `user`, as a client and as a server at `hosts` (names and addresses)."""
        issuer = x509.load_pem_x509_certificate((self.folder / "ca.crt").read_bytes())
        signer = serialization.load_pem_private_key((self.folder / "ca.key").read_bytes(), None)
        assert isinstance(signer, ec.EllipticCurvePrivateKey)
        key = self._make_key(file)
        builder = _builder(_name(user, groups), issuer.subject, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), False)
        if hosts:
            names = x509.SubjectAlternativeName([_host(host) for host in hosts])
            builder = builder.add_extension(names, False)
        self._write_certificate(file, builder.sign(signer, hashes.SHA256()))

    def write_kubeconfig(self, path: Path, file: str, server: str, namespace: str) -> None:
        """A kubeconfig file that needs no other file: `server` as the user of the pair `file`."""

        def data(name: str) -> str:
            return base64.b64encode((self.folder / name).read_bytes()).decode()

        cluster = {"server": server, "certificate-authority-data": data("ca.crt")}
        user = {
            "client-certificate-data": data(f"{file}.crt"),
            "client-key-data": data(f"{file}.key"),
        }
        context = {"cluster": "tfapp", "user": file, "namespace": namespace}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "tfapp", "cluster": cluster}],
            "users": [{"name": file, "user": user}],
            "contexts": [{"name": "tfapp", "context": context}],
            "current-context": "tfapp",
        }
        write_private(path, json.dumps(config, indent=1).encode())  # JSON is YAML

    def _make_key(self, file: str) -> ec.EllipticCurvePrivateKey:
        key = ec.generate_private_key(ec.SECP256R1())
        text = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        write_private(self.folder / f"{file}.key", text)
        return key

    def _write_certificate(self, file: str, certificate: x509.Certificate) -> None:
        text = certificate.public_bytes(serialization.Encoding.PEM)
        (self.folder / f"{file}.crt").write_bytes(text)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + VALID)
    )


def _name(user: str, groups: Sequence[str]) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user), *attributes])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def write_private(path: Path, data: bytes) -> None:
    """A file that its owner alone can read, complete or not there."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
    new.replace(path)
