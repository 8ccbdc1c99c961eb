"""The coordinator's decisions: pure functions from a state and an event to a state and actions.

The application:

    FORMING ---- all have answered ----> RUNNING ---- the verdict is fixed ----> STOPPING
       ^                                    |                                       |
       +--------- next generation ----------+                no program lives: FINISHED

FORMING leads to STOPPING too. Success, a failure that is not survived, a deadline or a stop fixes
the verdict, which does not change any more.

While it forms, containers that wait for others of the same generation, which a scheduler holds
back, are given back after a while, and all are asked for again (`forming.give_back`).

An instance has a `Stage`, and an `Intent`, which says what the coordinator plans for it:

    REQUESTED ---> WAITING ---> RUNNING ---> STOPPING
        |             |            |            |
        +-------------+------------+------------+---> ENDED   its runner has reported the end
        |             |            |            |       |
        +-------------+------------+------------+-------+---> GONE    its container has ended too,
                                                                      or its runner may exit
    The next generation makes ENDED into WAITING, and GONE into REQUESTED: another container.

A failure (`Failure`) is collected, then judged:

    an instance fails ---> the failure is open: later failures belong to it
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

`step.step` handles all events. `ends` handles the end of an instance, `judging` collects and judges
failures as `failure_policy` says, `forming` forms a generation, `ending` ends the application, and
`flexing` changes the number of instances. `stacks` asks where programs are that hang. Most events
only record what has happened. Most decisions are made at the event Tick, which the loop sends after
all events that have arrived.
"""
