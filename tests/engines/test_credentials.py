import datetime

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tfapp.engines.credentials import new_credentials

NOW = 1_800_000_000.0


def test_certificate():
    pem, key = new_credentials(NOW)
    certificate = x509.load_pem_x509_certificate(pem)
    now = datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc)
    assert certificate.not_valid_before_utc == now - datetime.timedelta(days=1)
    assert certificate.not_valid_after_utc == now + datetime.timedelta(days=3650)
    assert certificate.subject.rfc4514_string() == "CN=skein-internal"
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["skein-internal"]
    private = serialization.load_pem_private_key(key, None)
    assert private.public_key() == certificate.public_key()


def test_each_pair_is_new():
    assert new_credentials(NOW)[1] != new_credentials(NOW)[1]
