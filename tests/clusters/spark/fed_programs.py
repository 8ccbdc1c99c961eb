"""Programs that are fed. They are shipped with this file."""

import os
import pathlib
import time


def collect(ctx, folder, batch=64, shuffle=0, pause=0.0, stop_after=0, held_after=0):
    """Saves the ids that it got, in their order. With `held_after` generation 1 goes no further
    than so many batches, and says so."""
    import numpy as np

    pathlib.Path(folder, f"pid-{ctx.index}-{ctx.generation}").write_text(str(os.getpid()))
    ids, checked = [], 0
    for number, found in enumerate(ctx.feed.batches(batch, shuffle=shuffle), 1):
        ids += found["id"].tolist()
        checked += int((found["x"][:, 3] == found["id"]).sum())
        if number == stop_after:
            ctx.feed.stop()
        if number == held_after and ctx.generation == 1:
            pathlib.Path(folder, f"held-{ctx.index}").touch()
            time.sleep(600)
        time.sleep(pause)
    np.save(f"{folder}/{ctx.index}-{ctx.generation}.npy", np.asarray(ids, dtype="int64"))
    print(f"it got {len(ids)} rows")
    shares = "memfd:tfapp-feed-" in pathlib.Path("/proc/self/maps").read_text()
    return {"rows": len(ids), "checked": checked, "shares": shares}


def learn_ids(ctx, folder, batch, dies_after):
    """Its model is the ids that it got. It saves it every ten batches, with the feed's state, and
    goes on from there."""
    import json

    ids, model = [], pathlib.Path(folder, f"model-{ctx.index}.json")
    other = pathlib.Path(folder, "model-0.json")
    if ctx.generation > 1:
        # What all have saved: the smallest number of batches.
        saved = sorted(pathlib.Path(folder).glob("model-*.json"))
        models = [json.loads(path.read_text()) for path in saved]
        least = min(one["state"][2] for one in models)
        state = [*models[0]["state"][:2], least]
        ctx.feed.restore(state)
        ids = models[ctx.index]["ids"][: least * batch]
    base = len(ids) // batch
    for number, found in enumerate(ctx.feed.batches(batch), 1):
        ids += found["id"].tolist()
        if number % 10 == 0 and ctx.generation == 1:
            partial = model.with_suffix(".part")
            partial.write_text(json.dumps({"state": ctx.feed.state(number), "ids": ids}))
            partial.replace(model)
        if ctx.generation == 1 and ctx.index == 1 and number == dies_after:
            while not other.exists() or json.loads(other.read_text())["state"][2] < 100:
                time.sleep(0.05)
            os.kill(os.getpid(), 9)
        time.sleep(0.005)
    return {"ids": ids, "base": base}


def count(ctx, batches=None, by=None):
    """How many rows it got, what their ids add up to, and by how many MiB it grew after the first.
    It ends after so many batches; with `by` this worker alone does."""
    import resource

    taken, before = [0, 0], 0
    for number, found in enumerate(ctx.feed.batches(4096), 1):
        before = before or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        taken = [taken[0] + len(found["id"]), taken[1] + int(found["id"].sum())]
        if number == batches and by in (None, ctx.index):
            break
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"rows": taken[0], "sum": taken[1], "grown": grown / 1024}


def read_columns(ctx, columns):
    for _ in ctx.feed.batches(64, columns):
        pass


def wait_for_nothing(ctx):
    """Never reads what it is fed."""
    ctx.feed.batches(64)
    time.sleep(600)


def raise_after(ctx, batches):
    """Fails in the middle."""
    for number, _ in enumerate(ctx.feed.batches(64), 1):
        if number == batches:
            raise RuntimeError(f"batch {number} is bad")


def answer(ctx, less=0, dies=False):
    """Answers with the sum of its rows. With `dies` worker 1 dies at its first question."""

    def total(found):
        if dies and (ctx.index, ctx.generation) == (1, 1):
            os.kill(os.getpid(), 9)
        return {"total": found["x"].sum(1)[: len(found["x"]) - less]}

    ctx.feed.serve(total)
