"""Run as a program: trains, damages the backup, and trains on. Prints a line of JSON for each row.

python backups.py FOLDER
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

from tfapp.errors import ProgramError
from tfapp.program.keras_backup import backup_of

keras = tf.keras
X = np.zeros((8, 2), "float32")


def train(folder: Path, epochs: int) -> list[int]:
    """The epochs that are trained."""
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    seen: list[int] = []
    note = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: seen.append(epoch))
    backup = backup_of(keras.callbacks.BackupAndRestore, str(folder))
    model.fit(X, X[:, :1], epochs=epochs, verbose=0, callbacks=[backup, note])
    return seen


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garbage(path: Path) -> None:
    path.write_bytes(b"\xff" * path.stat().st_size)


def main(folder: Path) -> None:
    train(folder / "whole", 2)
    files = [path for path in (folder / "whole").rglob("*") if path.is_file()]
    # Keras 3: all that is not a copy of the state before. tf-keras: the list of checkpoints.
    wanted = {"latest.weights.h5", "training_metadata.json", "checkpoint"}
    names = sorted(str(p.relative_to(folder / "whole")) for p in files if p.name in wanted)
    copies = any(path.suffix == ".bkp" for path in files)
    for alone in (False, True) if copies else (True,):
        for name in names:
            for damage in (cut, empty, garbage):
                place = folder / "damaged"
                shutil.rmtree(place, ignore_errors=True)
                shutil.copytree(folder / "whole", place)
                for copy in place.glob("*.bkp") if alone else ():
                    copy.unlink()
                damage(place / name)
                try:
                    told = train(place, 3)
                except ProgramError as error:
                    told = [str(error), error.hint]
                row = {"file": name, "damage": damage.__name__, "alone": alone, "told": told}
                print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
