"""The keys in Skein's key-value store; {instance} is "worker/1"."""

from __future__ import annotations

CONTROL_PREFIX = "tfapp.control."
KEY_GENERATION = "tfapp.control.generation"  # {"generation": g}
KEY_CLUSTER = "tfapp.control.cluster"  # class Cluster
KEY_RELEASED = "tfapp.control.released"  # {"generation": g, "components": [may start]}
ORDER_PREFIX = "tfapp.order."  # + instance: class Order; only the coordinator writes it
REPORT_PREFIX = "tfapp.report."  # all that runners and clients tell the coordinator
# + instance, value: the container's id. Owned by the container; its end deletes it.
ALIVE_PREFIX = "tfapp.report.alive."
ANSWER_PREFIX = "tfapp.report.answer."  # + instance, owned: class Answer
BEAT_PREFIX = "tfapp.report.beat."  # + instance, owned: class Beat
EXIT_PREFIX = "tfapp.report.exit."  # + instance, unowned: class ExitReport
KEY_STOP = "tfapp.report.stop"  # {"message": text}: a client asks for the end
KEY_FLEX = "tfapp.report.flex"  # class FlexRequest: a client asks for another number of instances
FLEXED_PREFIX = "tfapp.flexed."  # + a request's id: class FlexReply
KEY_STATUS = "tfapp.status"  # class ApplicationStatus, published by the coordinator
