"""`tfapp test-package --run` with a mistake; tests/examples/test_primes.py has one that passes."""

from pathlib import Path

import pytest

PRIMES = Path(__file__).parents[2] / "examples" / "primes"


@pytest.mark.slow
def test_nothing_runs_after_a_mistake(tfapp):
    enough = ("--option", "site.global.primes.limit", 10**9)
    done = tfapp("test-package", PRIMES, "--run", *enough, "--kill", "counter/7")
    assert (done.code, "no instance or container 'counter/7'" in done.err) == (44, True)
    assert "KILLED" in tfapp.asks("list")
