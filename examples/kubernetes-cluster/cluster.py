#!/usr/bin/env python3
"""A real Kubernetes on one Linux machine: a control plane and two nodes, each in namespaces of its
own.

    python cluster.py build          fetch and build what it needs, once: about 6 minutes; Kueue
                                     too with --kueue: 7 more
    python cluster.py start          make and start it; prints what to export
    eval "$(python cluster.py env)"  KUBECONFIG
    python cluster.py image python   give the nodes an image of Debian's Python
    python cluster.py kueue          start Kueue in it
    python cluster.py node 2 kill    or start, pause, resume, cut, join
    python cluster.py api kill       or start, pause, resume
    python cluster.py stop           end every process of it and delete its folder
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from kubernetes_cluster import images, programs
from kubernetes_cluster.cluster import Cluster
from kubernetes_cluster.kueue import KUEUE
from kubernetes_cluster.processes import ClusterError
from kubernetes_cluster.programs import codename, prepare_debian

NODE_ACTIONS = ("kill", "start", "pause", "resume", "cut", "join")
API_ACTIONS = ("kill", "start", "pause", "resume")


def main(argv: list[str]) -> int:
    """Runs one command; returns the exit code."""
    # What the command has started, in a session of its own, ends with it.
    for interrupt in (signal.SIGINT, signal.SIGTERM):
        signal.signal(interrupt, lambda number, _: sys.exit(128 + number))
    args = make_parser().parse_args(argv)
    cache = args.cache.expanduser()
    cluster = Cluster(args.dir or cache / "kubernetes-cluster", cache)
    try:
        execute(args, cluster)
    except ClusterError as error:
        print(f"cluster.py: {error}", file=sys.stderr)
        return 1
    return 0


def make_parser() -> argparse.ArgumentParser:
    """Of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default_cache = os.environ.get("TFAPP_TEST_CACHE") or "~/.cache/tfapp"
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--cache", metavar="DIR", type=Path, default=Path(default_cache))
    shared.add_argument("--dir", metavar="DIR", type=Path, help="default: CACHE/kubernetes-cluster")
    commands = parser.add_subparsers(dest="command", required=True)
    build = commands.add_parser("build", parents=[shared], help="fetch and build what it needs")
    build.add_argument("--kueue", action="store_true", help="Kueue too")
    start = commands.add_parser("start", parents=[shared], help="make and start it")
    start.add_argument("--nodes", metavar="N", type=int, default=2)
    commands.add_parser("stop", parents=[shared], help="end it and delete its folder")
    commands.add_parser("env", parents=[shared], help="print the variables to export")
    commands.add_parser("kueue", parents=[shared], help="start Kueue in it")
    commands.add_parser("status", parents=[shared], help="what of it runs")
    user = commands.add_parser(
        "user", parents=[shared], help="print the kubeconfig file of a user without rights"
    )
    user.add_argument("name", metavar="NAME")
    user.add_argument("--namespace", metavar="NAMESPACE", default="default")
    image = commands.add_parser("image", parents=[shared], help="give the nodes an image")
    image.add_argument(
        "image",
        metavar="FILE",
        help=f'an archive that `docker save` has written, or "python": {images.PYTHON}',
    )
    node = commands.add_parser("node", parents=[shared], help="disturb one node")
    node.add_argument("node", metavar="N", type=int)
    node.add_argument("action", choices=NODE_ACTIONS)
    api = commands.add_parser("api", parents=[shared], help="disturb the API server")
    api.add_argument("action", choices=API_ACTIONS)
    return parser


def execute(args: argparse.Namespace, cluster: Cluster) -> None:
    """One command."""
    if args.command == "build":
        build(cluster.cache, args.kueue)
    elif args.command == "start":
        seconds = cluster.start(args.nodes)
        print(f"up after {seconds:.1f} s in {cluster.folder}", file=sys.stderr)
        print_exports(cluster)
    elif args.command == "stop":
        cluster.stop()
    elif args.command == "env":
        for name in cluster.require():
            print(f"cluster.py: {name} has ended; `node {name[4:]} start`", file=sys.stderr)
        print_exports(cluster)
    elif args.command == "kueue":
        cluster.start_kueue()
    elif args.command == "status":
        for name, running in cluster.programs().items():
            print(f"{name:24}{'runs' if running else 'has ended'}")
        print(f"{'memory':24}{cluster.memory() / 2**20:.0f} MiB, without pods")
    elif args.command == "user":
        print(cluster.add_user(args.name, args.namespace))
    elif args.command == "image":
        if args.image == "python":
            cluster.load_python()
        else:
            cluster.load_image(Path(args.image))
    elif args.command == "node":
        getattr(cluster, f"{args.action}_node")(args.node)
    else:
        getattr(cluster, f"{args.action}_api")()


def build(cache: Path, kueue: bool) -> None:
    """All that it needs."""
    # In a process of its own, which a Ctrl-C reaches too: it is done long before Kubernetes.
    with ProcessPoolExecutor(1) as pool:
        fetched = pool.submit(fetch_debian, cache)
        print(programs.prepare(cache, os.environ).binaries)
        fetched.result()
    if kueue:
        print(programs.build(cache, os.environ, KUEUE))


def fetch_debian(cache: Path) -> None:
    """All that is Debian's. ClusterError where it cannot be had."""
    prepare_debian(cache, os.environ)
    if codename():  # elsewhere there is no such image, and all else works
        images.python_layer(cache, os.environ)


def print_exports(cluster: Cluster) -> None:
    """What a shell is to evaluate."""
    for name, value in cluster.variables().items():
        print(f"export {name}={shlex.quote(value)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
