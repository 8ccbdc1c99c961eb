"""The function of a Spark task that runs a container. It is pickled by value for the executors,
which do not have tfapp."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any


def container(order: Mapping[str, Any]) -> Callable[[Iterable[Any]], list[Any]]:
    """Returns a function for `mapPartitions`. `order`: the order of tfapp.standalone.keeper,
    without the values that only the executor knows, what is to be added to the container's
    `environment`, and the texts `certificate`, `key`, `keeper`
    and `bootstrap`."""

    def run(_: Iterable[Any]) -> list[Any]:
        import json
        import os
        import subprocess
        import sys
        import tempfile

        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        scratch = os.environ.get("SPARK_LOCAL_DIRS") or os.environ.get("LOCAL_DIRS") or ""
        folder = tempfile.mkdtemp(prefix="tfapp-", dir=scratch.split(",")[0] or None)
        texts = {"crt": "certificate", "key": "key"}
        texts.update({"keeper.py": "keeper", "bootstrap.py": "bootstrap"})
        for name, text in texts.items():
            with open(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                file.write(order[text])
        # Programs that ask for python3 get the executor's.
        os.mkdir(f"{folder}/bin")
        for name in ("python3", "python"):
            with open(
                os.open(f"{folder}/bin/{name}", os.O_WRONLY | os.O_CREAT, 0o700), "w"
            ) as file:
                file.write(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        os.mkdir(f"{folder}/logs", 0o700)
        own = ("SPARK", "PYSPARK", "_PYSPARK", "PYTHON", "NM_", "OMP_NUM_THREADS", "CONTAINER_ID")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(own)}
        gpu = context.resources().get("gpu")
        environment.update(
            PATH=f"{folder}/bin:{environment.get('PATH') or '/usr/local/bin:/usr/bin:/bin'}",
            LOG_DIRS=f"{folder}/logs",
            CUDA_VISIBLE_DEVICES=",".join(gpu.addresses) if gpu else "",
            **order["environment"],
        )
        told = {key: order[key] for key in ("id", "control", "files", "patience")}
        told.update(attempt=context.attemptNumber(), folder=folder, environment=environment)
        keeper = subprocess.Popen(
            [sys.executable, f"{folder}/keeper.py"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=2,
            start_new_session=True,
        )
        assert keeper.stdin is not None
        keeper.stdin.write(json.dumps(told).encode() + b"\n")
        keeper.stdin.flush()
        return [keeper.wait()]

    return run
