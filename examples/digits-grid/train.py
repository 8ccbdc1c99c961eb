"""Handwritten digits, learned by scikit-learn with the rate and the batch of its arguments.

Tells its accuracy after each epoch. A restarted run goes on after the last epoch that was saved.
"""

import argparse
import json
import os
import pickle
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import SGDClassifier

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, required=True)
parser.add_argument("--batch", type=int, required=True)
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()
if args.rate <= 0:
    parser.error(f"a rate is above 0, found {args.rate}")


def write(path: Path, content: bytes) -> None:
    """Whole, or not at all."""
    path.with_suffix(".new").write_bytes(content)
    os.replace(path.with_suffix(".new"), path)


digits = load_digits()
order = np.random.default_rng(seed=0).permutation(len(digits.data))
images, labels = digits.data[order] / 16.0, digits.target[order]
TEST = 360  # images that are kept for the test

saved = Path(os.environ["TFAPP_CHECKPOINT_DIR"]) / "last.pickle"
saved.parent.mkdir(parents=True, exist_ok=True)
model = SGDClassifier(learning_rate="constant", eta0=args.rate, random_state=0)
done = 0
if saved.exists():
    done, model = pickle.loads(saved.read_bytes())
for epoch in range(done + 1, args.epochs + 1):
    for begin in range(TEST, len(images), args.batch):
        part = slice(begin, begin + args.batch)
        model.partial_fit(images[part], labels[part], classes=range(10))
    accuracy = model.score(images[:TEST], labels[:TEST])
    write(saved, pickle.dumps((epoch, model)))
    told = {"step": epoch, "total": args.epochs, "metrics": {"accuracy": accuracy}}
    write(Path(os.environ["TFAPP_METRICS_FILE"]), json.dumps(told).encode())
    print(f"epoch {epoch}/{args.epochs} accuracy {accuracy:.3f}", flush=True)
