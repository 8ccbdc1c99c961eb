"""`tfapp compile` and `--dry-run` with --engine kubernetes; no cluster is asked."""

import pytest
import yaml

from tests import programs
from tfapp.shipped import app_packages_dir

TENSORFLOW = str(app_packages_dir() / "tensorflow")
TAGS = ("--tag", "zoo", "--tag", "ant")
WORDS = {
    "compile": ("compile", TENSORFLOW, "--name", "app"),
    "create": ("create", "app", "--appdef", TENSORFLOW, "--dry-run"),
    "run": ("run", f"{TENSORFLOW}/scripts/tensorflow.py", "--dry-run", *TAGS),
}


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_objects_are_printed_and_no_file_is_kept(words, tmp_path, kubeconfig):
    places = {"KUBECONFIG": str(kubeconfig(namespace="team")), "TFAPP_HOME": str(tmp_path / "home")}
    more = ("--engine", "kubernetes", "--option", "env.TOKEN", "hush-hush")
    printed = programs.printed("-m", "tfapp", *words, *more, environ=places)
    found = list(yaml.safe_load_all(printed))
    assert [body["kind"] for body in found] == [
        "ConfigMap", "Secret", "ServiceAccount", "Role", "RoleBinding",
        "ServiceAccount", "Role", "RoleBinding", "Secret", "Secret", "Job",
        *["Pod"] * 7,  # one for each component of the package
    ]  # fmt: skip
    assert {body["metadata"]["namespace"] for body in found} == {"team"}
    secrets = [body["data"] for body in found if body["kind"] == "Secret"]
    assert {value for data in secrets for value in data.values()} == {"[secret]"}
    assert "hush-hush" not in printed
    assert not (tmp_path / "home" / "compiled").exists()
    # TF-Spawner's label is the first tag.
    tag = found[-1]["metadata"]["labels"].get("training_attempt")
    assert tag == ("zoo" if "--tag" in words else None)
