"""tf.data service: its dispatcher, its data workers, and the address that all other programs get.

The dispatcher knows which data worker has which part of a data set. Its journal lies in the
checkpoint folder, so that a dispatcher that starts again at its address goes on with what it was
doing. In the next generation data workers have other addresses and trainers read from their
checkpoint, so it begins with an empty journal.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tfapp.contract.messages import Member
from tfapp.contract.names import DATA_ROLES
from tfapp.runner import tensorflow_env
from tfapp.script import Context, Program

DISPATCHER, DATA_WORKER = ROLES = DATA_ROLES
VARIABLE = "TFAPP_DATA_SERVICE"
JOURNAL = "data-service"  # its folder, below that of the checkpoints

DISPATCHER_PROGRAM = """
import os, shutil, sys
import tensorflow as tf
port, journal, begins = sys.argv[1:]
if begins == "anew":
    shutil.rmtree(journal, ignore_errors=True)
os.makedirs(journal, exist_ok=True)
service = tf.data.experimental.service
config = service.DispatcherConfig(port=int(port), work_dir=journal, fault_tolerant_mode=True)
service.DispatchServer(config).join()
"""
DATA_WORKER_PROGRAM = """
import sys
import tensorflow as tf
port, address, dispatcher = sys.argv[1:]
service = tf.data.experimental.service
config = service.WorkerConfig(dispatcher, worker_address=address, port=int(port))
service.WorkerServer(config).join()
"""


def environment(members: Iterable[Member]) -> dict[str, str]:
    """VARIABLE, such as grpc://host:5050, where there is a dispatcher; {} where there is none.
    NoAddressError when it exports no address."""
    found = tensorflow_env.cluster_spec(members, (DISPATCHER,)).get(DISPATCHER)
    return {VARIABLE: f"grpc://{found[0]}"} if found else {}


def program(context: Context, anew: bool) -> Program:
    """The dispatcher, or a data worker. `anew`: whether the dispatcher drops an earlier journal.
    NoAddressError where one of them exports no address."""
    own = next(one for one in context.members if one.instance == context.instance)
    address = tensorflow_env.address(own)
    port = address.rpartition(":")[2]
    env = tensorflow_env.without_proxy(context.members, context.env)
    if own.role == DISPATCHER:
        # TensorFlow appends to the journal, which object stores cannot. Nobody but the next
        # dispatcher of this container reads it.
        remote = "://" in context.checkpoint_dir
        journal = Path(str(context.work_dir) if remote else context.checkpoint_dir) / JOURNAL
        words = (DISPATCHER_PROGRAM, port, str(journal), "anew" if anew else "again")
    else:
        dispatcher = tensorflow_env.cluster_spec(context.members, (DISPATCHER,))[DISPATCHER][0]
        words = (DATA_WORKER_PROGRAM, port, address, dispatcher)
    return Program((context.python, "-c", *words), env)
