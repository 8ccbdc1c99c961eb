"""A runner without a program: `python pretend_runner.py BEHAVIOUR`, in a container.

exit:CODE  reports that its program ended so       serve  runs until it is told to stop
die        ends without a word once it runs

TEST_GENERATION: the one that it takes part in, by default the first.
"""

import json
import os
import sys

from tfapp.contract.encoding import encode
from tfapp.contract.exit import Exit
from tfapp.contract.messages import Answer, Beat, ExitReport
from tfapp.contract.names import (
    ANSWER_PREFIX,
    BEAT_PREFIX,
    ENV_INSTANCE,
    EXIT_PREFIX,
    KEY_CLUSTER,
    ORDER_PREFIX,
    initial_instance,
)
from tfapp.protocol.connection import from_current
from tfapp.protocol.watch import Put, Watch

DEADLINE = 60.0
GENERATION = int(os.environ.get("TEST_GENERATION", "1"))


def main(behaviour: str) -> None:
    with from_current(os.environ) as connection:
        instance = os.environ.get(ENV_INSTANCE) or initial_instance(connection.container)
        keys = (KEY_CLUSTER, ORDER_PREFIX + instance)
        watch = connection.watch(keys=keys)
        answer = Answer(GENERATION, instance, "127.0.0.1", connection.container, {})
        connection.put_own(ANSWER_PREFIX + instance, encode(answer))
        wait_for(watch, KEY_CLUSTER)
        if behaviour == "die":
            os._exit(9)
        connection.put_own(BEAT_PREFIX + instance, encode(Beat(GENERATION, 1, "running")))
        exit = Exit(None, 15, "signal", "killed by SIGTERM (15)")
        if behaviour == "serve":
            assert json.loads(wait_for(watch, keys[1]))["action"] == "stop"
        else:
            code = int(behaviour.partition(":")[2])
            exit = Exit(code, None, "exit", f"exit code {code}")
        stopped = behaviour == "serve"
        container = connection.container
        report = ExitReport(
            GENERATION, instance, container, "127.0.0.1", exit, stopped, "the end", 1.0
        )
        connection.put(EXIT_PREFIX + instance, encode(report))
        assert json.loads(wait_for(watch, keys[1]))["action"] == "exit"


def wait_for(watch: Watch, key: str) -> bytes:
    """The next value of `key`, which is written after the watch was opened."""
    while True:
        event = watch.get(DEADLINE)
        assert isinstance(event, Put), event
        if event.key == key:
            return event.value


if __name__ == "__main__":
    main(sys.argv[1])
