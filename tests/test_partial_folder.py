import subprocess
import sys
from pathlib import Path

from tfapp.disk import partial_folder

MAKER = """
import sys
from pathlib import Path
from tfapp.disk import partial_folder
with partial_folder(Path(sys.argv[1])) as folder:
    (folder / "half").write_text("made")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_maker_left_goes_when_the_next_begins(tmp_path):
    environments = tmp_path / "environments"
    words = [sys.executable, "-c", MAKER, str(environments)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as maker:
        try:
            other = Path(maker.stdout.readline().strip())
            with partial_folder(environments) as own:
                assert sorted(environments.iterdir()) == sorted([other, own])
            assert list(environments.iterdir()) == [other]
        finally:
            maker.kill()
    assert (other / "half").exists()
    with partial_folder(environments) as own:
        assert list(environments.iterdir()) == [own]
    assert list(environments.iterdir()) == []


def test_what_is_moved_away_stays(tmp_path):
    with partial_folder(tmp_path) as folder:
        folder.rename(tmp_path / "made")
    assert list(tmp_path.iterdir()) == [tmp_path / "made"]
