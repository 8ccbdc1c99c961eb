import pytest

from tfapp.errors import NotFoundError, UsageError
from tfapp.launch.env_file import read_env_file


def test_reads_variables(tmp_path):
    path = tmp_path / "env"
    path.write_text(
        "# access\n\nS3_KEY=a=b\n  export S3_URL = 'http://h:1/ x' \nQ=\"\"\nEMPTY=\nQ2=it's\n"
    )
    assert read_env_file(path, "--env-file") == {
        "S3_KEY": "a=b",
        "S3_URL": "http://h:1/ x",
        "Q": "",
        "EMPTY": "",
        "Q2": "it's",
    }


@pytest.mark.parametrize("line", ["secret-word", "a b=1", "1A=secret", "=secret", "export =1"])
def test_a_wrong_line_is_named_but_not_shown(tmp_path, line):
    path = tmp_path / "env"
    path.write_text(f"A=1\n{line}\n")
    with pytest.raises(UsageError) as caught:
        read_env_file(path, "--env-file")
    assert caught.value.message == f"{path}:2: this line sets no variable"
    assert "secret" not in caught.value.hint


def test_a_missing_file(tmp_path):
    with pytest.raises(NotFoundError, match="--env-file .*/none cannot be read"):
        read_env_file(tmp_path / "none", "--env-file")


def test_a_binary_file(tmp_path):
    path = tmp_path / "env"
    path.write_bytes(b"A=\xff\n")
    with pytest.raises(UsageError, match="is not UTF-8 text"):
        read_env_file(path, "--env-file")
