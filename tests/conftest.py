from __future__ import annotations

import hypothesis
import pytest

# Machines that run these tests are shared: an example that is slow once says nothing. The same
# examples in every run, so that a failure is the change's own.
hypothesis.settings.register_profile(
    "tfapp",
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("tfapp")


@pytest.fixture(autouse=True)
def tfapp_home(tmp_path_factory, monkeypatch):
    """A TFAPP_HOME of the test's own, for the processes that it starts too."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("TFAPP_HOME", str(home))
    return home
