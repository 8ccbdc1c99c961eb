"""The contract of all engines on a real cluster."""

import pytest
import skein

from tests.clusters.kubernetes.packaged import PackagingEngine
from tests.engines import test_contract
from tests.engines.applications import MASTER, compiled, service
from tests.engines.test_contract import *  # noqa: F403
from tfapp.contract.encoding import encode
from tfapp.contract.status import Verdict, format_diagnostics

# As that of all engines, with what an image has.
COORDINATOR = """
import os, pathlib, sys
sys.path.insert(0, "/tfapp/runtime/runtime.zip")
from tfapp.protocol.connection import from_current
app = from_current(os.environ)
wanted = app.watch(keys=["tfapp.report.stop"])
app.put("tfapp.status", pathlib.Path("status.json").read_bytes())
if app.get("tfapp.report.stop") is None:
    while wanted.get(60) is None: pass
app.shutdown("KILLED", pathlib.Path("diagnostics").read_text())
"""


@pytest.fixture
def graceful(tmp_path):
    """An application with a coordinator that ends it when it is asked to."""
    verdict = Verdict("KILLED", 66, "Stopped on request.")
    texts = {
        "coordinator.py": COORDINATOR.encode(),
        "status.json": encode(test_contract.status("RUNNING")),
        "diagnostics": format_diagnostics(test_contract.status("KILLED", verdict)).encode(),
    }
    files = {}
    for name, text in texts.items():
        (tmp_path / name).write_bytes(text)
        files[name] = skein.File(f"file://{tmp_path / name}", type="FILE")
    master = skein.Master(script="exec python3 coordinator.py", resources=MASTER, files=files)
    return compiled(master=master, w=service())


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home"


@pytest.fixture
def engine(home, cluster, namespace):
    engine = PackagingEngine(home, cluster.variables(), namespace.name)
    yield engine
    for application in engine.list():
        engine.stop(application.name, "the test is over", force=True)
        engine.destroy(application.name)


def test_logs_outlive_the_application(engine):
    """As that of all engines; here a pod is of the instance that its container was made for."""
    test_contract.logs_of_fixed_containers_stay(engine)
