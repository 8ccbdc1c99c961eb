"""A third engine, as small as one can be: its containers see neither the master's disk nor its
loopback. One folder, and one line in ENGINES, which the test adds."""

from collections.abc import Mapping
from pathlib import Path

from tfapp.engines.base import check_files_are_local
from tfapp.engines.machine.recorded import RecordedEngine

DEFINITIONS = "isolated/apps/*/definition.json"


class IsolatedEngine(RecordedEngine):
    """Containers are processes in network and mount namespaces of their own. ISOLATED_ADDRESS in
    the environment: of the bridge that joins them (see `launcher`)."""

    name = "isolated"
    launcher = "tests.engines.isolated.launcher"

    def check(self, compiled):
        check_files_are_local(compiled)
        return super().check(compiled)


def open_engine(home: Path, environ: Mapping[str, str]) -> IsolatedEngine:
    return IsolatedEngine(home, home / "isolated", environ["ISOLATED_ADDRESS"], environ)
