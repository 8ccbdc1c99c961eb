"""The coordinator's decisions: pure functions from a state and an event to a state and actions.

The application:

    FORMING ---- all have answered ----> RUNNING ---- the verdict is fixed ----> STOPPING
       ^                                    |                                       |
       +--------- next generation ----------+                no program lives: FINISHED

FORMING leads to STOPPING too. The verdict is fixed by success, by a failure that is not survived,
by a deadline or by a stop, and does not change any more.

An instance (`Stage`, and an `Intent`: what is to become of it):

    REQUESTED ---> WAITING ---> RUNNING ---> STOPPING
        |             |            |            |
        +-------------+------------+------------+---> ENDED   its runner has reported the end
        |             |            |            |       |
        +-------------+------------+------------+-------+---> GONE    so is its container, or its
                                                                      runner may go
    The next generation makes ENDED into WAITING, and GONE into REQUESTED: another container.

A failure (`Failure`) is collected, then judged:

    an instance fails ---> the failure is open: what else fails belongs to it
                               |
          not survived --------+-------- survived
          nothing is done:               its recovery begins: a program or a container is
          a likelier cause               replaced, or the next generation forms
          may follow                            |
               |                                |
      the settle time is over        all have answered, or the settle time is over where
               |                     nothing forms or another failure waits
            verdict                             |
                                     the cause is charged, once

    The cause has the best rank (`judging.rank`); among equals it is the first that arrived.

Events come in by `step.step`. An end of an instance is taken in by `ends`, failures are collected
and judged by `judging`, `forming` forms a generation, `ending` ends the application, `flexing`
changes the number of instances. Events tell what has happened; most of what follows is decided by
the event Tick, which the loop sends after all that has arrived.
"""
