from tfapp.engines.machine.starter import inherited
from tfapp.master.launcher import container_id


def test_little_is_inherited():
    kept = {"PATH": "/bin", "LANG": "C", "LC_ALL": "C", "TMPDIR": "/t", "DOCKER_HOST": "x"}
    left = {"PYTHONPATH": "/p", "AWS_SECRET": "s", "http_proxy": "p", "CUDA_VISIBLE_DEVICES": "1"}
    assert inherited({**kept, **left}) == kept


def test_container_ids():
    assert container_id("application_1500_0003", 12) == "container_1500_0003_01_000012"
