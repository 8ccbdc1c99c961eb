"""An application in the hands of a Python program, its own or another process's."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfapp.api import notebook
from tfapp.api.errors import told_in_full
from tfapp.api.result import Result, logs_of, result_of
from tfapp.contract.status import ApplicationStatus
from tfapp.engines import base
from tfapp.engines.base import Engine
from tfapp.errors import ApplicationFailedError, TimedOutError, UsageError
from tfapp.interrupts import ctrl_c_asks
from tfapp.launch.caller import Caller, calling_process
from tfapp.launch.display import PlainDisplay, last_lines
from tfapp.launch.fetch import fetch
from tfapp.launch.follow import (
    Display,
    Feed,
    Stopper,
    follow,
    has_ended,
    is_running,
    not_running_in_time,
    wait_until,
)
from tfapp.launch.tensorboard import wait_for_page

if TYPE_CHECKING:
    from tfapp.api.feeding import Feeding
    from tfapp.feed.driver import FeedResult

OnChange = Callable[[ApplicationStatus], Any]

STOPPED = "stopped by Ctrl-C"
LEFT = "stopped by the end of its `with` block"


class Application:
    """One run of an application, as `tfapp.submit` and `tfapp.open` return it. Usable from any
    thread. As a context manager it stops an application that still runs at the block's end.

    In a notebook it shows itself as a table that changes until the application has ended.

    >>> def greet(context):
    ...     context.report(loss=0.25, step=3)
    ...     print("hello from", context.instance)
    >>> with tfapp.submit(greet, tfapp.all_reduce(2), name="doc-handle", show=False) as application:
    ...     application.wait(timeout=600).state
    'SUCCEEDED'
    >>> "hello from worker/1" in application.logs("worker/1")["worker/1"]
    True
    >>> result = application.result()
    >>> dict(result.metrics), result.exit_code
    ({'loss': 0.25}, 0)
    >>> application.destroy()
    """

    def __init__(
        self,
        engine: Engine,
        application: base.Application,
        caller: Caller,
        show: bool = True,
        pickles: bool = False,
        feeding: Feeding | None = None,
    ):
        self.name = application.name
        self.engine = engine.name
        self.run: int = application.run
        self.id = application.id
        self._engine, self._caller, self._show, self._pickles = engine, caller, show, pickles
        self._application = application
        self._feeding = feeding
        self._held = contextlib.ExitStack()  # ways to its pages
        weakref.finalize(self, self._held.close)

    def status(self) -> ApplicationStatus:
        """Its state now, or its verdict. UnreachableError when its master does not answer."""
        with told_in_full():
            self._application = self._engine.find(self.name, self.run)
            return self._application.status

    def follow(self, on_change: OnChange | None = None) -> ApplicationStatus:
        """Prints its states and its chief's output until it has ended; in a notebook, shows its
        table. `on_change` is called with each new status. Ctrl-C stops the application, a second
        one at once; then KeyboardInterrupt. Returns the last status, whatever the verdict."""
        with told_in_full(), interruptible(self._engine, self.name, self._caller) as stopper:
            return self.follow_with(stopper, on_change)

    def wait(self, timeout: float | None = None) -> ApplicationStatus:
        """Waits for its end without a word, and returns the last status, whatever the verdict.
        TimedOutError after `timeout` seconds; the application goes on."""
        with told_in_full():
            ended = wait_until(self._feed(), has_ended, timeout)
            if ended is None:
                raise TimedOutError(f"{self.name} has not ended after {timeout:g} s; it goes on")
            return ended.status

    def wait_until_running(self, timeout: float | None = None) -> ApplicationStatus:
        """Waits until its cluster has formed and the programs run, or it has ended. TimedOutError
        after `timeout` seconds; the application goes on."""
        with told_in_full():
            reached = wait_until(self._feed(), is_running, timeout)
            if reached is None:
                raise not_running_in_time(self.name, timeout or 0)
            return reached.status

    def result(self, timeout: float | None = None, *, on_change: OnChange | None = None) -> Result:
        """What came of it, once it has ended: follows it until then, or, with `timeout` seconds,
        waits. Raises ApplicationFailedError, with the result, when it did not succeed."""
        if timeout is not None and on_change is not None:
            raise UsageError("on_change is not called with a timeout", "Give one of the two.")
        status = self.follow(on_change) if timeout is None else self.wait(timeout)
        with told_in_full():
            return self.finished(status)

    def finished(self, status: ApplicationStatus) -> Result:
        """The result, after its end with `status`. ApplicationFailedError."""
        self._application = dataclasses.replace(self._application, status=status, live=False)
        result = result_of(self._engine, self._application, self._pickles)
        if not result.succeeded:
            raise ApplicationFailedError(result)
        return result

    def logs(self, instance: str = "", tail: int | None = None) -> Mapping[str, str]:
        """What instances wrote, by instance; `instance`: one ("worker/1") or a component
        ("worker"), "coordinator" or "master". `tail`: the last so many lines of each.
        NotFoundError where there is none."""
        with told_in_full():
            return logs_of(self._engine, self.name, self.run, instance, tail)

    def exports(self) -> dict[str, Mapping[str, Mapping[str, str]]]:
        """{instance: {group: {name: value}}} of what instances export."""
        return {i.instance: i.exports for i in self.status().instances if i.exports}

    def tensorboard(self, timeout: float = 600.0) -> str:
        """The address of its TensorBoard, once that runs. It leads there as long as this object is
        there. BadStateError when it has none or has ended, TimedOutError after `timeout`
        seconds."""
        with told_in_full():
            page = wait_for_page(self._feed(), self.name, timeout)
            reached = self._engine.reach(self.name, page.instance, page.address)
            return self._held.enter_context(reached)

    def fetch(
        self, folder: str | os.PathLike[str], path: str = "", *, replace: bool = False
    ) -> list[Path]:
        """Copies the file or folder `path` of its checkpoint folder, by default all of it, into
        `folder` of this machine, and returns the new files. ExistsError where a file would be
        replaced, unless with `replace`; NotFoundError where there is nothing."""
        with told_in_full():
            target = self._caller.cwd / folder
            return list(fetch(self._engine, self.name, path, target, self._caller, replace))

    def feed(
        self,
        data: Any,
        *,
        epochs: int = 1,
        final: bool = True,
        rest: str = "drop",
        stall_timeout: float = 600.0,
        ports: str = "",
    ) -> FeedResult:
        """Feeds a Spark DataFrame or RDD to the programs' `context.feed.dataset()`, on whatever
        engine they run: each row to one of them, once in each of `epochs`. Returns when they have
        taken all, or stopped.

        `final`: whether no more data comes; with False it returns when all rows are with the
        programs, may be called again, and `end_feed` comes last. So a stream is fed:
        `stream.writeStream.foreachBatch(lambda batch, _: app.feed(batch, final=False))`.
        `rest`: what becomes of rows at the end that make no full batch for every program: "drop",
        or "share" them as one shorter batch each. `stall_timeout`: seconds without any progress
        after which it is an error; a slow program is none. `ports`: "40000-40100", of which this
        driver listens at one.

        FeedError when the data cannot be fed; ApplicationFailedError when the application fails;
        UsageError where it was submitted without feed=True, or by another process."""
        with told_in_full():
            feeding = self._fed()
            feeding.listen(self, data, rest, ports)
            return feeding.feed(data, epochs, final, stall_timeout)

    def open_feed(self, spark: Any, *, rest: str = "drop", ports: str = "") -> None:
        """Connects the programs to the driver of `spark`, a session or its context, before there is
        data: so that `end_feed` can end a feed without any. `rest`, `ports`: as for `feed`."""
        with told_in_full():
            self._fed().listen(self, spark, rest, ports)

    def end_feed(self, *, wait: bool = True) -> FeedResult:
        """No more data comes. Returns when the programs have taken what was fed; with `wait` False
        at once."""
        with told_in_full():
            return self._fed().end(wait)

    @property
    def feed_is_over(self) -> bool:
        """Whether the programs that are fed want no more rows, or have ended."""
        if self._application.status.verdict is not None:
            return True
        return self._feeding is not None and self._feeding.stopped

    def infer(self, data: Any, schema: str, *, ports: str = "") -> Any:
        """What the programs' `context.feed.serve()` answers for a Spark DataFrame: a DataFrame
        with the same rows in their order, and the columns of `schema` ("prediction int, score
        array<float>") beside those of `data`. Of an RDD, an RDD of the answers. Nothing runs
        before Spark needs it; it can be computed as long as the programs serve, until
        `end_feed`."""
        with told_in_full():
            feeding = self._fed()
            feeding.listen(self, data, "drop", ports)
            return feeding.infer(data, schema)

    def flex(self, component: str, count: int | str) -> str:
        """Asks for `count` instances of a component: 3, or "+1" or "-1" to what there is. Returns
        what comes of it, in a sentence. BadStateError when it cannot be done."""
        from tfapp.engines.control import flex

        with told_in_full():
            return flex(self._engine, self.name, component, str(count))

    def kill(self, instance: str) -> str:
        """Kills the container of an instance ("worker/1"), a drill for what happens when a machine
        is lost. Returns the container's id. NotFoundError when there is none such."""
        from tfapp.engines.control import kill_container

        with told_in_full():
            return kill_container(self._engine, self.name, instance)

    def stop(
        self, message: str = "stopped", *, force: bool = False, timeout: float | None = None
    ) -> ApplicationStatus:
        """Ends it and waits for that; one that has ended stays as it is. `message`: why, for the
        verdict. `force`: without the grace in which programs can save. `timeout`: seconds for an
        end with grace."""
        with told_in_full():
            return self._engine.stop(self.name, message, force, timeout).status

    def destroy(self) -> None:
        """Forgets it and deletes its logs, never its checkpoints. InUseError while it runs."""
        with told_in_full():
            self._engine.destroy(self.name)

    def __enter__(self) -> Application:
        return self

    def __exit__(self, *_: object) -> None:
        if self._feeding is not None:
            self._feeding.close()
        if self.status().verdict is None:
            self.stop(LEFT)

    def __repr__(self) -> str:
        state = self._application.status.state
        return f"<tfapp.Application {self.name} on {self.engine}, run {self.run}: {state}>"

    def _ipython_display_(self) -> None:
        notebook.show_until_end(self._caller, self._engine, self._application)

    def _repr_html_(self) -> str:
        return notebook.table(self._application)

    # -- inside --
    def _fed(self) -> Feeding:
        if self._feeding is None:
            raise UsageError(
                f"{self.name} is not fed by this process",
                "Submit it here, with tfapp.submit(..., feed=True).",
            )
        return self._feeding

    def _feed(self) -> Feed:
        return Feed(self._engine, self.name, self.run)

    def follow_with(self, stopper: Stopper, on_change: OnChange | None) -> ApplicationStatus:
        """As `follow`; `stopper` is asked by somebody else."""
        display = self._display()
        shown = _Watched(display, on_change)
        ended = follow(self._engine, self._application, shown, stopper)
        display.close()
        self._application = ended
        verdict = ended.status.verdict
        if verdict is not None:
            for line in last_lines(verdict, display.shown_instance):
                self._caller.note(line)
            self._caller.note(f"{self.name}: {verdict.summary}")
        return ended.status

    def _display(self) -> PlainDisplay | _Silent:
        if not self._show:
            # An engine that copies what functions returned at the end has to be asked before.
            self._engine.returned(self.name, self.run)
            return _Silent()
        if notebook.is_here():
            return notebook.NotebookDisplay(self._caller, self._engine, self._application)
        return PlainDisplay(self._caller, self._engine, self._application)


class _Silent:
    """Shows nothing, and reads no output."""

    shown_instance = ""

    def show(self, application: base.Application) -> None:
        pass

    def show_output(self) -> None:
        pass

    def close(self) -> None:
        pass


class _Nowhere(io.StringIO):
    """Takes everything and keeps nothing."""

    def write(self, text: str) -> int:
        return len(text)


class _Watched:
    """A display, and somebody who is told of each change."""

    def __init__(self, display: Display, on_change: OnChange | None):
        self._display, self._on_change = display, on_change

    def show(self, application: base.Application) -> None:
        self._display.show(application)
        if self._on_change is not None:
            self._on_change(application.status)

    def show_output(self) -> None:
        self._display.show_output()


@contextlib.contextmanager
def interruptible(engine: Engine, name: str, caller: Caller) -> Iterator[Stopper]:
    """Ctrl-C in the block asks the stopper; KeyboardInterrupt at its end when it was asked."""
    stopper = Stopper(caller, engine, name, STOPPED, "(interrupt once more: at once)")
    with ctrl_c_asks(stopper.ask):
        yield stopper
    if stopper.asked:
        raise KeyboardInterrupt(f"{name} was stopped")


def caller_of(show: bool) -> Caller:
    """This process, which is told nothing without `show`."""
    caller = calling_process(Caller)
    return caller if show else dataclasses.replace(caller, out=_Nowhere(), err=_Nowhere())
