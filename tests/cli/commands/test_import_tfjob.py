"""What `tfapp import-tfjob` says and leaves; tests/tfjob has what manifests become."""

import pytest

from tests.cli.commands.call import call
from tfapp.package.load import load_package

JOB = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: My.Digits, namespace: research, labels: {kueue.x-k8s.io/queue-name: team}}
spec:
  runPolicy: {suspend: true}
  tfReplicaSpecs:
    Worker:
      template:
        spec:
          containers:
            - name: tensorflow
              image: registry.example.org/digits:1
              command: [train]
              resources: {limits: {memory: 1Gi}}
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path


def test_a_package_is_written_and_the_next_command_told(job):
    code, a_shell = call(job, None, "import-tfjob", "job.yaml")
    assert (code, a_shell.err.text) == (
        0,
        "My.Digits is ready; next: tfapp create my-digits --appdef My.Digits --engine kubernetes "
        "--namespace research --queue team\n",
    )
    assert a_shell.out.text == (
        "job.yaml:5:15: warning: spec.runPolicy.suspend is not carried over: `tfapp create` starts "
        "it at once [tfjob]\n"
        "  its Job can be suspended later; Kueue holds its pods back: docs/kubernetes.md\n"
    )
    package = load_package(job / "My.Digits").package
    assert (package.name, package.instances("worker")) == ("My.Digits", 1)


def test_a_folder_that_is_in_use_is_left_alone(job):
    code, a_shell = call(job, None, "import-tfjob", "job.yaml", "--out", ".")
    assert code == 75
    assert ". exists and is not an empty folder" in a_shell.err.text
    assert [path.name for path in job.iterdir()] == ["job.yaml"]


def test_a_wrong_manifest_leaves_nothing(job):
    (job / "job.yaml").write_text(JOB.replace("TFJob", "MPIJob"))
    code, a_shell = call(job, None, "import-tfjob", "job.yaml")
    assert (code, a_shell.out.text) == (77, "")
    assert a_shell.err.text == (
        "job.yaml:2:1: error: expected the kind TFJob, found 'MPIJob' [tfjob]\n"
        "  give the file of one TFJob\n"
        "error: 1 error in the manifest\n"
    )
    assert [path.name for path in job.iterdir()] == ["job.yaml"]
