"""What a call means: as a Skein specification, and as a package on disk."""

import skein

import tfapp
from tfapp.launch.caller import Caller, calling_process
from tfapp.launch.submission import Request, compile_request

PROGRAM = "def train(context):\n    return context.index\n"


def arguments(tmp_path):
    (tmp_path / "data.txt").write_text("1 2 3")
    return {
        "components": tfapp.parameter_servers(3, 1, "3 GiB", 2, evaluator=True),
        "files": {"inputs/data.txt": tmp_path / "data.txt"},
        "env": {"RATE": "0.5"},
        "retries": 7,
        "losses": 8,
        "timeout": 3600,
        "queue": "ml",
        "acls": {"view_users": ["ann", "bob"]},
        "checkpoints": "/mnt/models",
        "name": "meant",
        "options": {"site.global.stop.grace": 11},
    }


def test_a_call_compiles_to_what_skein_takes(module, tmp_path, tfapp_home):
    spec = tfapp.compile(module(PROGRAM).train, **arguments(tmp_path))
    assert isinstance(spec, skein.ApplicationSpec)
    counts = {name: one.instances for name, one in spec.services.items() if one.instances}
    assert counts == {"chief": 1, "worker": 3, "ps": 1, "evaluator": 1}
    assert spec.services["worker"].resources.vcores == 2
    assert spec.queue == "ml"
    assert spec.acls.view_users == ["ann", "bob"]
    assert list(tfapp_home.iterdir()) == []


def test_a_written_package_means_what_the_call_means(module, tmp_path):
    program = module(PROGRAM).train
    given = arguments(tmp_path)
    folder = tfapp.write_package(tmp_path / "package", program, **given)
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {"metainfo.yaml", "files/tfapp-call/main.py", "files/inputs/data.txt"} <= names

    caller = calling_process(Caller)
    engine = caller.engine("local")
    queue = {"engine_options": {"queue": "ml"}}
    written = compile_request(Request("meant", folder, **queue), caller, engine, dry_run=True)
    services = tfapp.compile(program, **given).services
    assert written.job.failure.max_restarts == 7
    assert {n: s.resources.to_dict() for n, s in written.spec.services.items()} == {
        n: s.resources.to_dict() for n, s in services.items()
    }
    assert written.private.env["worker"]["RATE"] == "0.5"


def test_a_package_on_disk_is_the_base(module, tmp_path):
    folder = tfapp.write_package(
        tmp_path / "base", module(PROGRAM).train, tfapp.all_reduce(4, "3 GiB"), env={"BASE": "1"}
    )
    spec = tfapp.compile(module(PROGRAM).train, package=folder, name="on-base")
    assert spec.services["worker"].instances == 4
    assert spec.services["worker"].resources.memory == 3072
    changed = tfapp.compile(
        module(PROGRAM).train,
        {"worker": tfapp.Component(instances=2)},
        package=folder,
        name="on-base",
    )
    assert changed.services["worker"].instances == 2
    assert changed.services["worker"].resources.memory == 3072
