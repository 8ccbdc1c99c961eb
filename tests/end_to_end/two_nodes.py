"""`tfapp` on two nodes: masters listen at an address that both reach, and a container of component
worker runs in the network namespace of the second node, unless the file CUT says that this is cut
off. Called as `two_nodes.py CUT COMMAND ...` in the namespaces that `NETWORK` makes."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

FIRST, SECOND = "10.77.0.1", "10.77.0.2"
NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount", "--net")

# Shell commands. A switch joins the nodes: who is unplugged keeps a network that nobody is on. It
# has an address of its own: one that changes with its links is out of reach for minutes.
NETWORK = f"""
mount -t tmpfs none /run
ip link set lo up
ip link add switch address 02:00:0a:4d:00:01 type bridge
ip address add {FIRST}/24 dev switch
ip link set switch up
ip netns add second
ip link add plug type veth peer name eth0 netns second
ip link set plug master switch up
ip -n second address add {SECOND}/24 dev eth0
ip -n second link set lo up
ip -n second link set eth0 up
"""
UNPLUG = "ip link set plug nomaster"
PLUG_IN = "ip link set plug master switch"

PYTHON = """#!/bin/sh
case "${{SKEIN_CONTAINER_ID:-}}" in
  worker_*) test -e {cut} || NM_HOST={second} exec nsenter --net=/run/netns/second {python} "$@" ;;
esac
NM_HOST={first} exec {python} "$@"
"""


def main() -> int:
    from tfapp.cli.main import Outcome, dispatch, error_boundary
    from tfapp.cli.shell import Shell, current_shell
    from tfapp.engines.local.engine import LocalEngine

    class Reaching(Shell):
        def engine(self, name: str | None = None, places: object = None) -> LocalEngine:
            return LocalEngine(self.home, bind=FIRST, environ=self.environ)

    cut, *words = sys.argv[1:]
    python = Path(cut).with_name("python")
    if not python.exists():
        names = {"cut": cut, "first": FIRST, "second": SECOND, "python": sys.executable}
        python.write_text(PYTHON.format_map({k: shlex.quote(v) for k, v in names.items()}))
        python.chmod(0o755)
    shell = Reaching(**{**vars(current_shell()), "python": str(python)})
    outcome = Outcome()
    with error_boundary(shell, words, outcome):
        outcome.code = dispatch(words, shell)
    return outcome.code


if __name__ == "__main__":
    sys.exit(main())
