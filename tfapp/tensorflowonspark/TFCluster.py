"""A TensorFlow cluster on Spark's executors: start it, feed it, wait for its end.

cluster = TFCluster.run(sc, map_fun, args, num_executors=4, num_ps=1,
                        input_mode=TFCluster.InputMode.SPARK)
cluster.train(rdd, num_epochs=3)
cluster.shutdown()
"""

from __future__ import annotations

import functools
import itertools
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tfapp
from tfapp.api.errors import told_in_full
from tfapp.errors import TfappError, TimedOutError, UsageError
from tfapp.tensorflowonspark.arguments import meaningless, named_for, place_of
from tfapp.tensorflowonspark.TFNode import ROLES, call, in_order
from tfapp.topology import Component

QUEUES = ("input", "output", "error")
EPOCHS = 10  # of `train` with num_epochs=0
TIMEOUT = 259_200.0  # seconds of `shutdown`: three days
_MASTERS = ("chief", "master")


class InputMode:
    """TENSORFLOW: the programs read the data themselves. SPARK: Spark feeds the data to them."""

    TENSORFLOW = 0
    SPARK = 1


class Server:
    """The attribute `server` of a cluster."""

    def __init__(self, application: tfapp.Application):
        self._application = application

    @property
    def done(self) -> bool:
        """Whether the programs take no more data, or have ended."""
        return self._application.feed_is_over


class TFCluster:
    """A cluster that `run` has started. `application`: its `tfapp.Application`, which has logs,
    flex and exports."""

    def __init__(
        self,
        sc: Any,
        application: tfapp.Application,
        num_executors: int,
        input_mode: int,
        meta: dict[str, Any],
        queues: Sequence[str],
    ):
        self.sc = sc
        self.application = application
        self.num_executors = num_executors
        self.input_mode = input_mode
        self.cluster_meta = self.meta = meta
        self.cluster_id = meta["id"]
        self.defaultFS: str = meta["default_fs"]
        self.working_dir: str = meta["working_dir"]
        self.queues = list(queues)
        self.server = Server(application)
        self.nodeRDD = sc.parallelize(range(num_executors), num_executors)
        self.cluster_info = _nodes(application, meta["master_node"])

    def train(
        self, dataRDD: Any, num_epochs: int = 0, feed_timeout: float = 600, qname: str = "input"
    ) -> None:
        """Feeds an RDD, a DataFrame (which is faster) or a DStream to the programs, each row to one
        of them. Returns when the programs have consumed all rows: they have asked for more after
        the last, have ended with exit code 0, or have stopped the feed. With a DStream, at once.

        `num_epochs`: how often all rows are fed, 0 for 10 times. `feed_timeout`: seconds without
        any progress after which FeedError is raised. If rows of an RDD or a DataFrame are lost
        after this call, because a program fails that has not saved `DataFeed.state()`, the cluster
        fails, and `shutdown` raises the error.

        Raises `tfapp.errors.ApplicationFailedError`, with the last lines of output, if a program
        fails; `tfapp.errors.FeedError` for data that cannot be fed."""
        with told_in_full():
            self._check(qname)
            if num_epochs < 0:
                raise UsageError(f"num_epochs is {num_epochs}", "It is 0 or more.")
        feed = functools.partial(
            self.application.feed, final=False, stall_timeout=float(feed_timeout)
        )

        def feed_batch(rdd: Any) -> None:
            if not self.server.done:
                feed(rdd)

        if hasattr(dataRDD, "foreachRDD"):
            dataRDD.foreachRDD(feed_batch)
        else:
            feed(dataRDD, epochs=num_epochs or EPOCHS, consumed=True)

    def inference(self, dataRDD: Any, feed_timeout: float = 600, qname: str = "input") -> Any:
        """Returns an RDD of the programs' results for the elements of `dataRDD`, in the same order.
        Like every RDD it is computed when it is used, which must be before `shutdown`."""
        with told_in_full():
            self._check(qname)
        if feed_timeout != 600:
            meaningless("feed_timeout", "a slow program is no error")
        return self.application.infer(dataRDD, "")

    def shutdown(self, ssc: Any = None, grace_secs: float = 0, timeout: float = TIMEOUT) -> None:
        """Ends the feed and waits until the programs exit, including their work after the last row.
        With the StreamingContext `ssc`, first waits until the programs stop the feed or the stream
        ends, and stops the stream. The SparkContext is not stopped.

        `timeout`: seconds after which the cluster is stopped and TimedOutError is raised; -1 for no
        limit. `grace_secs` has no effect: programs get the time that they need.

        Raises `tfapp.errors.ApplicationFailedError`, with the last lines of output, if the
        application has not succeeded."""
        end = time.monotonic() + timeout if timeout > 0 else None
        if ssc is not None:
            self._await_stop(ssc, end)
        if self.input_mode == InputMode.SPARK:
            self.application.end_feed(wait=False)
        left = None if end is None else max(0.0, end - time.monotonic())
        try:
            self.application.result(left)
        except TimedOutError:
            self._give_up(timeout)

    def tensorboard_url(self) -> str | None:
        """The URL of the cluster's TensorBoard; None if it has none."""
        instances = self.application.status().instances
        has_one = any(one.component == "tensorboard" for one in instances)
        return self.application.tensorboard() if has_one else None

    def _await_stop(self, ssc: Any, end: float | None) -> None:
        while not self._has_terminated(ssc):
            if self.server.done:
                ssc.stop(stopSparkContext=False, stopGraceFully=True)
                return
            if end is not None and time.monotonic() > end:
                ssc.stop(stopSparkContext=False, stopGraceFully=False)
                self._give_up(0)

    def _has_terminated(self, ssc: Any) -> bool:
        """Waits up to a second for the end of the stream. Errors of a stream whose programs have
        ended are ignored, because the application's verdict reports the reason."""
        try:
            return bool(ssc.awaitTerminationOrTimeout(1))
        except Exception:  # Spark's Java exceptions have no class of their own
            if not self.server.done:
                raise
            return False

    def _give_up(self, timeout: float) -> None:
        words = "it has not ended in the time that shutdown gives"
        self.application.stop(words)
        raise TimedOutError(f"{self.application.name} was stopped: {words}")

    def _check(self, qname: str) -> None:
        if self.input_mode != InputMode.SPARK:
            raise UsageError(
                "the programs read their data themselves",
                "Give input_mode=TFCluster.InputMode.SPARK to TFCluster.run.",
            )
        if qname not in self.queues:
            raise UsageError(f"there is no queue {qname!r}", f"Known: {', '.join(self.queues)}.")


def run(
    sc: Any,
    map_fun: Callable[..., Any],
    tf_args: Any,
    num_executors: int,
    num_ps: int,
    tensorboard: bool = False,
    input_mode: int = InputMode.TENSORFLOW,
    log_dir: str | None = None,
    driver_ps_nodes: bool = False,
    master_node: str | None = None,
    reservation_timeout: float = 600,
    queues: Sequence[str] = QUEUES,
    eval_node: bool = False,
    release_port: bool = True,
    **more: Any,
) -> TFCluster:
    """Runs `map_fun(tf_args, ctx)` on a cluster of `num_executors` nodes, and returns when the
    cluster has formed and the programs run. If `tf_args` is a list, it becomes the programs'
    sys.argv too.

    `num_ps`: the number of parameter servers among the nodes. `master_node`: "chief" or "master" if
    one node is the chief, which gets this name. `eval_node`: whether one node is the evaluator. The
    other nodes are workers. `driver_ps_nodes`: whether the parameter servers run on the driver's
    machine. `tensorboard`: whether to run a TensorBoard as well, which shows `log_dir` or else the
    checkpoint folder. `reservation_timeout`: seconds within which all nodes must be ready.
    `release_port` and `queues` have no effect. `more`: arguments of `tfapp.submit`, such as
    packages=["pyarrow"] and name="digits".

    Raises the errors of `tfapp.submit`, and `tfapp.errors.ApplicationFailedError` if the cluster
    does not form."""
    if not release_port:
        meaningless("release_port", "tfapp holds the port until TensorFlow has it")
    if tuple(queues) != QUEUES:
        meaningless("queues", "rows have a way of their own")
    fed = input_mode == InputMode.SPARK
    with told_in_full():
        components = _components(num_executors, num_ps, master_node, eval_node, driver_ps_nodes)
    place = place_of(sc, master_node or "")
    options = {
        "site.global.gang.timeout": reservation_timeout,
        # TensorFlowOnSpark ends the evaluator with the last worker.
        "site.global.evaluator.timeout": 0,
        **more.pop("options", {}),
    }
    if log_dir is not None:
        options["site.global.tensorboard.logdir"] = log_dir
    application = tfapp.submit(
        functools.partial(call, map_fun, tf_args, place),
        components,
        **named_for(map_fun, sc, more),
        feed=fed,
        tensorboard=tensorboard,
        options=options,
    )
    try:
        if application.wait_until_running().verdict is not None:
            application.result()  # raises why
        if fed:
            application.open_feed(sc)
    except (TfappError, KeyboardInterrupt):
        application.stop("the cluster did not form", force=True)
        raise
    meta = {
        "id": random.getrandbits(64),
        "num_executors": num_executors,
        "default_fs": place.default_fs,
        "working_dir": place.working_dir,
        "master_node": master_node or "",
        "cluster_template": _template(components, master_node or "chief"),
        "server_addr": None,
        "release_port": release_port,
    }
    return TFCluster(sc, application, num_executors, input_mode, meta, queues)


def _components(
    num_executors: int, num_ps: int, master_node: str | None, eval_node: bool, on_driver: bool
) -> dict[str, Component]:
    if master_node and master_node not in _MASTERS:
        raise UsageError(f"master_node is {master_node!r}", f"It is {' or '.join(_MASTERS)}.")
    workers = num_executors - num_ps - bool(master_node) - eval_node
    if workers < 0 or workers + bool(master_node) == 0:
        raise UsageError(
            f"a cluster of {num_executors} nodes has no worker and no chief",
            f"{num_ps} of them are parameter servers" + (", one is the evaluator." * eval_node),
        )
    place = {"site.global.spark.on.driver": True} if on_driver else {}
    found = {
        "ps": Component(instances=num_ps, options=place),
        "chief": Component(instances=int(bool(master_node))),
        "evaluator": Component(instances=int(eval_node)),
        "worker": Component(instances=workers),
    }
    return {role: found[role] for role in ROLES if found[role].instances}


def _template(components: Mapping[str, Component], master: str) -> dict[str, list[int]]:
    """{role: executor_ids of its nodes}. `master`: the name of the chief."""
    numbers = itertools.count()
    return {
        master if role == "chief" else role: [next(numbers) for _ in range(one.instances)]
        for role, one in components.items()
    }


def _nodes(application: tfapp.Application, master: str) -> list[dict[str, Any]]:
    """The nodes in the form of TensorFlowOnSpark's `cluster_info`."""
    found = []
    nodes = in_order(application.status().instances, lambda one: one.component)
    for number, one in enumerate(nodes):
        name = master if master and one.component == "chief" else one.component
        address = one.exports.get(one.component, {}).get("host_port", "")
        found.append(
            {
                "executor_id": number,
                "host": one.host,
                "job_name": name,
                "task_index": int(one.instance.rpartition("/")[2]),
                "port": int(address.rpartition(":")[2] or 0),
                "tb_pid": 0,
                "tb_port": 0,
                "addr": None,
                "authkey": None,
            }
        )
    return found
