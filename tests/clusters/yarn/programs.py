"""Small programs that tests submit."""

HELLO = """
import os, time
print("TF_CONFIG is", os.environ["TF_CONFIG"])
time.sleep(1)
"""

# What tfapp.program leaves of a function that returns its instance's name.
RETURNS = """
import json, os, pathlib
record = {"generation": 1, "value": os.environ["TFAPP_INSTANCE"]}
pathlib.Path(os.environ["TFAPP_LOG_DIR"], "tfapp-returned.json").write_text(json.dumps(record))
"""

FAILS = """
import os, sys
if os.environ["TFAPP_INSTANCE"] == "worker/1":
    print("no such data set", file=sys.stderr)
    sys.exit(3)
import time
time.sleep(600)
"""

GOES_ON = """
import time
print("begins")
time.sleep(600)
"""

# Asked to end, it saves for so many seconds: `SAVES_FOR.format(seconds=3)`.
SAVES_FOR = """
import os, signal, sys, time
def save(*_):
    time.sleep({seconds})
    os.write(1, b"has saved\\n")  # it may have interrupted a print
    sys.exit()
signal.signal(signal.SIGTERM, save)
print("begins", flush=True)
while True:
    time.sleep(1)
"""

TAKES_A_WHILE = """
import time
print("begins", flush=True)
time.sleep(15)
"""

TELLS = """
import os, time
print("begins")
print("a word of", len(os.environ["WORD"]))
time.sleep(600)
"""

GREEDY = """
import time
held = b"x" * (1 << 30)
time.sleep(600)
"""

# A checkpoint takes longer than what YARN itself leaves between SIGTERM and SIGKILL.
SAVES = """
import os, pathlib, signal, sys, time
checkpoint = pathlib.Path(os.environ["TFAPP_CHECKPOINT_DIR"], "step")
step = int(checkpoint.read_text()) if checkpoint.exists() else 0
def save(*_):
    time.sleep(1)
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    checkpoint.write_text(str(step))
    os.write(1, b"saved step %d\\n" % step)
    sys.exit()
signal.signal(signal.SIGTERM, save if step == 0 else signal.SIG_IGN)
print("goes on at step", step, flush=True)
while True:
    time.sleep(0.1)
    step += 1
"""
