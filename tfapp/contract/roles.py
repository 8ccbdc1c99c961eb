"""What a component is in its application."""

from __future__ import annotations

ROLES = ("chief", "worker", "ps", "evaluator", "tensorboard", "other")
# Programs of these roles never end by themselves: they are stopped when the others are done.
SERVICE_ROLES = ("ps", "tensorboard", "other")
