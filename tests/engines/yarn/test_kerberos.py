"""The caller's Kerberos identity, from the tickets and keytabs that Java would find."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfapp.engines.yarn import kerberos
from tfapp.engines.yarn.kerberos import Ticket, find_keytab, find_user, java_options, read_ticket
from tfapp.errors import UnavailableError

REALM = "EXAMPLE.ORG"
NOW = 1000.0


def block(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def principal(name: str, realm: str = REALM) -> bytes:
    parts = name.split("/")
    names = b"".join(block(part.encode()) for part in parts)
    return struct.pack(">II", 1, len(parts)) + block(realm.encode()) + names


def credential(server: bytes, ends: int) -> bytes:
    times = struct.pack(">IIII", 1, 1, ends, ends + 7)
    address = struct.pack(">I", 1) + struct.pack(">H", 2) + block(bytes(4))
    rest = bytes(5) + address + struct.pack(">I", 0) + block(b"ticket") + block(b"")
    return principal("ann") + server + struct.pack(">H", 18) + block(b"key") + times + rest


def ticket_file(*credentials: bytes) -> bytes:
    header = struct.pack(">HHII", 1, 8, 0, 0)
    head = b"\x05\x04" + struct.pack(">H", len(header)) + header + principal("ann")
    return head + b"".join(credentials)


SETTING = credential(principal("krb5_ccache_conf_data/pa_type", "X-CACHECONF:"), 0)
FOR_TICKETS = credential(principal(f"krbtgt/{REALM}"), 2000)
FOR_A_SERVICE = credential(principal("HTTP/node1"), 9000)


@pytest.fixture
def environ(tmp_path):
    (tmp_path / "core-site.xml").write_text(
        "<configuration><property><name>hadoop.security.authentication</name>"
        "<value>kerberos</value></property></configuration>"
    )
    cache = tmp_path / "tickets"
    return {"HADOOP_CONF_DIR": str(tmp_path), "KRB5CCNAME": f"FILE:{cache}"}


def test_a_ticket_is_found_among_others(environ, tmp_path):
    (tmp_path / "tickets").write_bytes(ticket_file(SETTING, FOR_TICKETS, FOR_A_SERVICE))
    assert kerberos.find_ticket(environ) == Ticket(f"ann@{REALM}", 2000)
    assert find_user(environ, "bob") == "ann"
    assert kerberos.show(environ, NOW) == f"a ticket of ann@{REALM}, good for 0 h 16 min"


@pytest.mark.parametrize(
    "data", [b"", b"\x05\x03", b"no tickets", ticket_file(), ticket_file(SETTING, FOR_A_SERVICE)]
)
def test_a_file_without_a_ticket(data):
    assert read_ticket(data) is None


@given(st.integers(0, len(ticket_file(FOR_TICKETS))), st.binary(max_size=8))
def test_a_file_that_is_cut_or_spoilt_is_read_without_harm(place, noise):
    data = ticket_file(FOR_TICKETS)
    read_ticket(data[:place])
    read_ticket(data[:place] + noise + data[place + len(noise) :])


def test_nothing_to_show(environ, tmp_path):
    def complaint(**more) -> tuple[str, str]:
        with pytest.raises(UnavailableError) as raised:
            kerberos.require({**environ, **more}, NOW + 5000)
        return raised.value.message, raised.value.hint.partition(",")[0]

    place = tmp_path / "tickets"
    assert complaint() == (
        f"there is no Kerberos ticket in {place}",
        f"Run `kinit -c FILE:{place}`",
    )
    place.write_bytes(ticket_file(FOR_TICKETS))
    assert complaint() == (f"the Kerberos ticket of ann@{REALM} has expired", "Run `kinit`")
    message, hint = complaint(KRB5CCNAME="KCM:0")
    assert message == "KRB5CCNAME is KCM:0, and Hadoop's programs find tickets in files alone"
    assert hint.startswith("Set KRB5CCNAME to FILE:/tmp/krb5cc_")


def test_a_container_has_its_tokens(environ):
    kerberos.require({**environ, "HADOOP_TOKEN_FILE_LOCATION": "/tokens"}, NOW)


def test_a_cluster_that_does_not_ask(environ, tmp_path):
    site = tmp_path / "core-site.xml"
    site.write_text(site.read_text().replace("kerberos", "simple"))
    environ |= {"KRB5KEYTAB": "x", "KRB5PRINCIPAL": "ann"}
    kerberos.require(environ, NOW)
    assert find_user(environ, "bob") == "bob"
    assert find_user({**environ, "HADOOP_USER_NAME": "carol"}, "bob") == "carol"


def test_a_cluster_of_which_nothing_is_told():
    environ = {"HADOOP_CONF_DIR": "/nowhere", "HADOOP_USER_NAME": "carol"}
    kerberos.require(environ, NOW)
    assert find_user(environ, "bob") == "carol"
    login = {"KRB5KEYTAB": "x", "KRB5PRINCIPAL": "ann"}
    assert find_user({**environ, **login}, "bob") == "ann"


def test_a_keytab_that_can_be_used(environ, tmp_path):
    keytab = tmp_path / "ann.keytab"
    keytab.touch()
    environ |= {"KRB5KEYTAB": str(keytab), "KRB5PRINCIPAL": "ann/host@EXAMPLE.ORG"}
    assert find_keytab(environ) == (str(keytab), "ann/host@EXAMPLE.ORG")
    assert find_user({**environ, "HADOOP_USER_NAME": "carol"}, "bob") == "ann"
    assert kerberos.show(environ, NOW) == f"the key of ann/host@EXAMPLE.ORG in {keytab}"


def test_without_a_keytab_the_ticket_counts():
    assert find_keytab({"KRB5PRINCIPAL": "ann@EXAMPLE.ORG"}) is None


def test_keytabs_that_cannot_be_used(tmp_path):
    for words, message in (
        (
            {"KRB5KEYTAB": str(tmp_path / "gone")},
            f"the Kerberos keytab {tmp_path}/gone does not exist",
        ),
        ({"KRB5KEYTAB": str(tmp_path)}, f"the Kerberos keytab {tmp_path} cannot be read"),
        (
            {"KRB5KEYTAB": __file__},
            "KRB5KEYTAB names a Kerberos keytab, and KRB5PRINCIPAL is not set",
        ),
    ):
        with pytest.raises(UnavailableError) as raised:
            find_keytab(words)
        assert raised.value.message == message


# What real clusters and KDCs made Java, Hadoop and Skein say.
HOSTS = (
    "DestHost:destPort localhost:1 , LocalHost:localPort vm/127.0.0.1:0. Failed on local exception"
)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            f"{HOSTS}: javax.security.sasl.SaslException: GSS initiate failed [Caused by "
            "GSSException: No valid credentials provided (Mechanism level: Failed to find any "
            "Kerberos tgt)]",
            "Failed to find any Kerberos tgt",
        ),
        (
            f"{HOSTS}: org.apache.hadoop.security.KerberosAuthException: Login failure for user: "
            "ann@EXAMPLE.ORG javax.security.auth.login.LoginException: Connection refused\n",
            "Connection refused",
        ),
        (
            f"{HOSTS}: java.io.IOException: org.apache.hadoop.security.AccessControlException: "
            "Client cannot authenticate via:[TOKEN, KERBEROS]",
            "Client cannot authenticate via:[TOKEN, KERBEROS]",
        ),
        ("Queue root.x is STOPPED", ""),
    ],
)
def test_java_says_that_kerberos_is_why(said, reason):
    assert kerberos.complaint(said) == reason


@pytest.mark.parametrize("environ", [{}, {"KRB5KEYTAB": "/k", "KRB5PRINCIPAL": "ann"}])
def test_a_kdc_that_is_down(environ):
    said = "javax.security.auth.login.LoginException: Connection refused"
    message = kerberos.refused(environ, said).message
    assert message == "Kerberos' KDC does not answer: Connection refused"


def test_a_configuration_that_does_not_tell_of_kerberos():
    said = "SIMPLE authentication is not enabled.  Available:[TOKEN, KERBEROS]"
    error = kerberos.refused({"HADOOP_CONF_DIR": "/conf"}, said)
    assert error.message == (
        "the cluster asks for Kerberos, and the configuration here does not say so"
    )
    assert error.hint == ("hadoop.security.authentication in /conf/core-site.xml must be kerberos.")


def test_a_key_that_is_not_there():
    said = "javax.security.auth.login.LoginException: Unable to obtain password from user"
    environ = {"KRB5KEYTAB": "/k/ann.keytab", "KRB5PRINCIPAL": "bob"}
    assert kerberos.refused(environ, said).message == (
        "Kerberos does not let bob in with /k/ann.keytab: no key of it is there"
    )


def test_java_reads_the_configuration_that_the_other_programs_read(tmp_path):
    """It takes one file, and they several."""
    there = tmp_path / "krb5.conf"
    there.touch()
    named = {"KRB5_CONFIG": f"{tmp_path}/none:{there}"}
    assert java_options(named) == (f"-Djava.security.krb5.conf={there}",)
    assert java_options({"KRB5_CONFIG": f"{tmp_path}/none"}) == java_options({}) == ()
