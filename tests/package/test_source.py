"""`--files`: what a user's files and folders become below files/."""

import pytest

from tests.package.packages import report
from tfapp.errors import InvalidPackageError
from tfapp.package.source import collect_user_files


def refusal(*paths):
    with pytest.raises(InvalidPackageError) as caught:
        collect_user_files(paths)
    return report(caught.value.problems, paths[0].parent)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ([], []),
        (["train.py"], ["train.py"]),
        (["src/train.py"], ["train.py"]),
        (["src"], ["src/model/net.py", "src/train.py"]),
        (["src/model"], ["model/net.py"]),
        (["src/"], ["model/net.py", "train.py"]),
        (["src/."], ["model/net.py", "train.py"]),
        (["src/model/.."], ["model/net.py", "train.py"]),
        (["."], ["src/model/net.py", "src/train.py", "train.py"]),
        (["train.py", "src"], ["src/model/net.py", "src/train.py", "train.py"]),
        ([".", "train.py", "src"], ["src/model/net.py", "src/train.py", "train.py"]),
    ],
    ids=str,
)
def test_files_and_folders(tmp_path, monkeypatch, given, names):
    (tmp_path / "src" / "model").mkdir(parents=True)
    for name in ("train.py", "src/train.py", "src/model/net.py"):
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    found = collect_user_files(given)
    assert sorted(found) == names
    assert all(path.samefile(path.read_text()) for path in found.values())


@pytest.mark.parametrize("given", [("a/x.json", "b/x.json"), ("x.json", "a/"), ("a/", "b/")])
def test_two_files_of_one_name_are_refused(tmp_path, monkeypatch, given):
    for name in ("a/x.json", "b/x.json", "x.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidPackageError) as caught:
        collect_user_files(given)
    (problem,) = caught.value.problems
    assert "x.json is to be shipped as x.json too" in problem.message
    assert sorted(collect_user_files(["a", "b", "x.json"])) == ["a/x.json", "b/x.json", "x.json"]


def test_nothing_there(tmp_path):
    assert refusal(tmp_path / "gone.py") == (
        "gone.py: error: there is no such file or folder [package]\n"
        "  hint: give your own programs to --files: files, or folders of them\n"
    )


def test_nothing_there_but_something_like_it(tmp_path):
    (tmp_path / "train.py").write_text("")
    assert refusal(tmp_path / "trian.py") == (
        "trian.py: error: there is no such file or folder [package]\n"
        "  hint: did you mean train.py?\n"
    )


def test_two_that_cannot_stand_side_by_side(tmp_path):
    (tmp_path / "Train.py").write_text("")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("")
    assert "differ only in capitals" in refusal(tmp_path / "Train.py", f"{tmp_path / 'src'}/")


def test_link_out_of_a_folder(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "key").symlink_to("/etc/passwd")
    assert refusal(tmp_path / "src").startswith("src/key: error: this link leads out")
    (tmp_path / "src" / "key").unlink()
    (tmp_path / "src" / "loop").symlink_to(".")
    assert refusal(tmp_path / "src").startswith("src/loop: error: this is a link to a folder")


def test_what_is_not_shipped_is_told(tmp_path):
    kept = ("train.py", "data/small.csv", "notes/keep.txt")
    left = ("data/big.csv", "notes/a.log", ".git/HEAD", "env/pyvenv.cfg", ".pytest_cache/x")
    for name in (*kept, *left, "__pycache__/train.pyc"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / ".tfappignore").write_text("# large\n/data/*\n!small.csv\n*.log\n")
    notes = []
    assert sorted(collect_user_files([f"{tmp_path}/"], notes.append)) == sorted(kept)
    assert notes == [
        f"{tmp_path}: does not ship .git/, .pytest_cache/, data/big.csv (.tfappignore), "
        "env/ (a virtual environment), notes/a.log (.tfappignore)"
    ]


def test_much_is_told_and_few_names_of_many(tmp_path):
    with open(tmp_path / "model.bin", "wb") as file:
        file.truncate(60_000_000)
    for number in range(10):
        (tmp_path / f"{number}.log").write_text("")
    (tmp_path / ".tfappignore").write_text("*.log\n")
    notes = []
    collect_user_files([tmp_path], notes.append)
    assert notes[0].endswith("7.log (.tfappignore) and 2 more")
    assert notes[1].startswith("ships 60 MB, which every container gets")


def test_a_pattern_that_is_none(tmp_path):
    (tmp_path / "train.py").write_text("")
    (tmp_path / ".tfappignore").write_text("a\n!\n")
    assert refusal(tmp_path).startswith(f"{tmp_path.name}/.tfappignore: error: ")


def test_all_faults_are_told_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("a/x", "b/x"):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(path)
    with pytest.raises(InvalidPackageError) as caught:
        collect_user_files(["none.py", "a/", "b/", "also-none"])
    text = report(caught.value.problems, tmp_path)
    assert [line.split(":")[0] for line in text.splitlines() if ": error: " in line] == [
        "none.py",
        "b/x",
        "also-none",
    ]
