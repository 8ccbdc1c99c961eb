"""The printed specification: readable, complete, without credentials."""

import skein
from hypothesis import given
from hypothesis import strategies as st

from tests.compiler.packages import compile_with, package
from tfapp.compiler.render import render_spec

TEXT = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), min_size=1)


def test_reads_back_equal():
    spec = compile_with(package(), tags=("yes", "010", "2024-01-01")).spec
    assert skein.ApplicationSpec.from_yaml(render_spec(spec)) == spec


@given(text=TEXT, word=TEXT)
def test_reads_back_equal_whatever_the_script(text, word):
    spec = compile_with(package()).spec
    spec.services["worker"].script = text
    spec.services["worker"].env = {word: text}
    spec.tags = {word, "tfapp"}
    assert skein.ApplicationSpec.from_yaml(render_spec(spec)) == spec


def test_scripts_are_blocks_and_the_name_comes_first():
    text = render_spec(compile_with(package()).spec)
    assert text.startswith("name: digits\nqueue: default\n")
    assert (
        "    script: |\n      set -euo pipefail\n      python=/opt/python/bin/python3\n"
    ) in text


def test_credentials_are_never_printed():
    spec = compile_with(package()).spec
    plain = render_spec(spec)
    spec.master.security = skein.Security(cert_bytes=b"certificate", key_bytes=b"key")
    assert render_spec(spec) == plain
