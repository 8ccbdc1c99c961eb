"""Every benchmark ends, and says what it should. Nobody looks at its figures. Those that need a
cluster run in the tests of that cluster."""

import re
from pathlib import Path

import pytest

from benchmarks.object_stores_steps import STEPS
from tests import programs

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
SECONDS = r" +[\d.]+ s +[\d.]+x  \([\d.]+ to [\d.]+\)  "
JUDGED = r"\((met|missed): at (least|most) [\d.]+x\)"
CORE = r"[\d.]+ % of a core, [\d.]+ of the bar"
SPREAD = r" +[\d.]+ s  \([\d.]+ to [\d.]+\)  "
AT_MOST = r"\((met|missed): at most [\d.]+ s\)"
SHARE = r" +-?[\d.]+% of one core "
MEMORY = r" +[\d.]+ MB  \([\d.]+ MB by share\)  "

# Words of the command -> the lines that it prints, as patterns.
HERE = {
    "data_service --rounds 1 --wait 0.01": (
        r"no data worker +[\d.]+ elements/s",
        r"1 data worker\(s\) +[\d.]+ elements/s +[\d.]+x",
        r"2 data worker\(s\) +[\d.]+ elements/s +[\d.]+x",
    ),
    "commands --rounds 1": (
        f"{SECONDS}python -c pass",
        f"{SECONDS}tfapp --help",
        f"{SECONDS}tfapp validate app-packages/tensorflow",
    ),
    "history 20 --here --rounds 1": (
        f"{SECONDS}python -c pass",
        f"{SECONDS}a folder",
        f"{SECONDS}a folder, of a user",
        r"a folder: [\d.]+ s for 20 runs \((met|missed): at most 1 s\)",
        r"a folder, of a user: [\d.]+ s for 20 runs \((met|missed): at most 1 s\)",
    ),
    "lost_master --rounds 1 --clients 20": (
        rf"{SPREAD}the next master answers {AT_MOST}",
        rf"{SPREAD}the command that follows says so, after that {AT_MOST}",
        rf"{SPREAD}the Python call that follows does, after that {AT_MOST}",
        r" +[\d.]+x  \([\d.]+ to [\d.]+\)  the steps without a master "
        r"\((met|missed): at least 0.98x\)",
        rf"{SPREAD}20 clients have found it {AT_MOST}",
    ),
    "object_stores --rounds 1 --megabytes 9 obstore": tuple(
        line
        for step in STEPS
        for line in (
            f"{SECONDS}{step}, obstore",
            rf"{step}, on processors: obstore [\d.]+ s",
        )
    ),
    "overhead --seconds 0.5": (
        f"{SHARE} tfapp run",
        f"{SHARE} master",
        f"{SHARE} coordinator",
        f"{SHARE} runner \\(all\\)",
        rf"{SHARE}for each of 2 workers \((met|missed): at most 1.2%\)",
    ),
    "page 1 1": (
        rf"listen: {CORE}, coordinator [\d.]+ %, 1 instances, \d+ times news, [\d.]+ KiB/s",
        rf"ask: {CORE}, coordinator [\d.]+ %, 1 instances, \d+ times news, [\d.]+ KiB/s",
        rf"page of a coordinator: {CORE}, 1 instances, \d+ times news, [\d.]+ KiB/s",
    ),
    "python_call --rounds 1": (
        f"{SECONDS}python -c pass",
        f"{SECONDS}import tfapp",
        f"[\\d.]+x {JUDGED}",
        f"{SECONDS}tfapp create",
        f"{SECONDS}tfapp.run",
        f"[\\d.]+x {JUDGED}",
    ),
    "redaction --megabytes 1": (r" +[\d.]+ MB/s  .*secret.*",) * 9,
    "rendezvous 3 --rounds 1": (
        f"{SECONDS}two phases, N=3",
        f"{SECONDS}one wait for each key, N=3",
        r"[\d.]+x as fast",
    ),
    "restart --rounds 1 --instances 1": (
        f"{SECONDS}by hand",
        f"{SECONDS}a program of 1 is killed",
        f"{SECONDS}a program of 1 exits with 3",
        f"{SECONDS}a runner of 1 is killed",
    ),
    "runner_memory --local": (
        f"{MEMORY}Python with tfapp's protocol",
        f"{MEMORY}Python with tfapp's protocol and Docker's library",
        rf"{MEMORY}runner, run mode local, [\d.]+ of the bar of 50 MB",
    ),
    "startup --rounds 1 --instances 1": (
        f"{SECONDS}by hand",
        f"{SECONDS}floor of 1 at once",
        f"{SECONDS}tfapp run -w 1",
        rf"N=1: -?[\d.]+ s more than by hand, [\d.]+x the floor {JUDGED}",
    ),
    "storage --rounds 1 --megabytes 16 processors S3": (
        f"{SECONDS}processors, TensorFlow's own",
        f"{SECONDS}processors, through the plug-in",
        r"processors: [\d.]+x \((met|missed): at most 1.5x\)",
        *(
            line
            for step, bar in (("read", 0.8), ("save", 0.7), ("restore", 0.7))
            for line in (
                f"{SECONDS}{step}, this machine's disk",
                f"{SECONDS}the bytes alone, S3",
                f"{SECONDS}{step}, S3",
                rf"{step}, S3: [\d.]+x \((met|missed): at least {bar}x\)",
            )
        ),
        r"memory, S3: -?\d+ MiB more \((met|missed): at most 64\)",
    ),
    "throughput --rounds 1 --steps 2 --workers 1": (
        f"{SECONDS}2 steps by hand",
        f"{SECONDS}2 steps under tfapp",
        rf"[\d.]+x the throughput by hand {JUDGED}",
    ),
}
# Where the others run.
ON_CLUSTERS = {
    "kubernetes_startup": "tests/clusters/kubernetes/test_engine.py",
    "spark_cluster": "tests/clusters/spark/test_engine.py",
    "spark_feed": "tests/clusters/spark/test_feed.py",
    "tensorflowonspark": "tests/clusters/spark/test_feed.py",
    "yarn_startup": "tests/clusters/yarn/test_engine.py",
}


def test_each_is_run_and_documented():
    files = [path for path in BENCHMARKS.glob("*.py") if not path.name.endswith("_steps.py")]
    own = {path.stem for path in files if '__name__ == "__main__"' in path.read_text()}
    assert {words.split()[0] for words in HERE} | set(ON_CLUSTERS) == own
    assert len(own) == len(HERE) + len(ON_CLUSTERS)
    documented = re.findall(r"`python -m benchmarks\.(\w+)", (BENCHMARKS / "README.md").read_text())
    assert sorted(documented) == sorted(own)
    for name, tests in ON_CLUSTERS.items():
        assert re.search(rf"benchmarks.*\b{name}\b", (ROOT / tests).read_text()), name


def marks(words: str) -> list[str]:
    long = ("storage", "data_service", "object_stores", "lost_master")
    weekly = ["weekly"] if words.startswith(long) else []
    trains = re.search("steps|storage|data_service|lost_master", words)
    return [*weekly, "trains"] if trains else weekly


@pytest.mark.parametrize(
    "words",
    [pytest.param(w, marks=[getattr(pytest.mark, name) for name in marks(w)]) for w in HERE],
)
def test_it_ends(words, tmp_path):
    environ, command = {"TMPDIR": str(tmp_path)}, ("-m", *f"benchmarks.{words}".split())
    printed = programs.printed(*command, cwd=ROOT, environ=environ, limit=500)
    lines, patterns = printed.splitlines(), HERE[words]
    assert len(lines) == len(patterns), printed
    for line, pattern in zip(lines, patterns):
        assert re.fullmatch(pattern, line), line
