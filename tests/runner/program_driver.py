"""Run as a program: starts a program as a runner does, and tells how it ended.

    python program_driver.py '{"argv": [...], "env": {...}, "cwd": "...", "redact": [...],
        "kill_limit": 0.5}'

A subreaper of its own, so that a test's processes are never mixed up with pytest's. Prints
"started PID", then after each line it reads ("kill", "signal N", "wait") one line of JSON.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import threading
from pathlib import Path

from tfapp import processes
from tfapp.runner.program import RunningProgram, StartError


def main() -> None:
    asked = json.loads(sys.argv[1])
    processes.adopt_orphans()
    processes.KILL_LIMIT = asked.get("kill_limit", processes.KILL_LIMIT)
    sink = os.open(asked["log"], os.O_WRONLY | os.O_CREAT)
    try:
        program = RunningProgram(
            asked["argv"],
            {"PATH": os.environ["PATH"], **asked.get("env", {})},
            Path(asked["cwd"]),
            asked.get("redact", ()),
            sink,
        )
    except StartError as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    waiter = threading.Thread(target=program.wait)
    waiter.start()
    print("started", program.pid, flush=True)
    for line in sys.stdin:
        command, *numbers = line.split()
        if command == "kill":
            program.kill()
        elif command == "signal":
            program.signal(int(numbers[0]))
        waiter.join(60)
        assert program.exit is not None, "it has not ended"
        told = {
            "exit": dataclasses.asdict(program.exit),
            "last": program.last_lines(),
            "running": program.running(),
            "remains": program.remains,
            "left": [process.pid for process in processes.left_behind()],
        }
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
