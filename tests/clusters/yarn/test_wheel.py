"""An example on the real cluster, by a tfapp that was installed from its wheel."""

import json
import shutil

import pytest

from tests import wheel
from tests.clusters.yarn.conftest import ROOT

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.trains]


@pytest.mark.weekly
def test_it_trains(user, tmp_path):
    python = wheel.installed(tmp_path)
    work = tmp_path / "work"
    shutil.copytree(ROOT / "examples" / "single", work)
    environ = {**user.environ, "TFAPP_HOME": str(user.home), "TFAPP_ENGINE": "yarn"}

    def tfapp(*words: str) -> str:
        return wheel.run(python.parent / "tfapp", *words, cwd=work, **environ)

    tfapp("init", "app")
    own = ("--template", "appConfig.yaml", "--resources", "resources.yaml", "--files", "train.py")
    said = tfapp("create", "from-wheel", "--appdef", "app", *own)
    assert "test accuracy" in said
    status = json.loads(tfapp("status", "from-wheel", "--format", "json"))
    assert (status["engine"], status["status"]["state"]) == ("yarn", "SUCCEEDED")
    tfapp("destroy", "from-wheel", "--checkpoints")
