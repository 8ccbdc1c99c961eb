"""The states of instances and applications."""

from __future__ import annotations

# Instance states, in the order a healthy one goes through them.
REQUESTED, WAITING, RUNNING, STOPPING = "REQUESTED", "WAITING", "RUNNING", "STOPPING"
SUCCEEDED, FAILED, KILLED, LOST = "SUCCEEDED", "FAILED", "KILLED", "LOST"
# Application states: ACCEPTED (no coordinator yet), FORMING, RUNNING, STOPPING, then a verdict.
ACCEPTED, FORMING = "ACCEPTED", "FORMING"
FINAL_STATES = (SUCCEEDED, FAILED, KILLED)
