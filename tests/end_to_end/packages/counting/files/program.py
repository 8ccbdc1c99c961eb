"""Counts its steps in the checkpoint folder, on from where it was, until a file says enough."""

import os
import pathlib
import time

folder = pathlib.Path(os.environ["TFAPP_CHECKPOINT_DIR"])
folder.mkdir(parents=True, exist_ok=True)
checkpoint = folder / os.environ["TFAPP_INSTANCE"].replace("/", "-")
step = int(checkpoint.read_text()) if checkpoint.exists() else 0
print("generation", os.environ["TFAPP_GENERATION"], "goes on at step", step)
while not (folder / "enough").exists():
    step += 1
    # One that stood still, and goes on until its runner ends it, may write beside its successor.
    unfinished = checkpoint.with_suffix(f".{os.getpid()}")
    unfinished.write_text(str(step))
    unfinished.rename(checkpoint)
    time.sleep(0.02)
print("trained", step, "steps")
