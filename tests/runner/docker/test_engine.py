"""The engine that the other tests of this folder use."""

from tests.runner.docker.engine import BASE


def test_it_runs_a_container_and_removes_it(engine):
    said = engine.docker("run", "--rm", BASE, "python3", "-c", "print(6 * 7)")
    assert said == "42\n"
    assert engine.containers() == []


def test_its_image_has_neither_tfapp_nor_what_tfapp_needs(engine):
    code = (
        "from importlib.util import find_spec; print(*map(find_spec, ('tfapp', 'skein', 'grpc')))"
    )
    assert engine.docker("run", "--rm", BASE, "python3", "-c", code) == "None None None\n"
