"""START READING HERE: the executor claims due tasks, runs their handlers, and settles the runs.

To see one run from the inside, start in ``running/run.py``; for the way of a task, read the list below. A task passes
through the folders in this order:

- ``room/`` says how much to claim, and whose tasks come first;
- ``claiming/`` decides what to claim next;
- ``limits/`` claims tasks of limited handlers together with their permits;
- ``running/`` runs tasks in worker threads and on an event loop, and decides how each run ends;
- ``settling/`` writes those ends to the database and reports final failures.

Before that, ``add_task`` in ``api.py`` has the task validated (``store/acceptance.py``) and its row written
(``store/schedules/add.py``), and executors are woken after the commit (``store/notices/wakeup.py``).

The way of one task, file by file:

1. claim: ``Poller.poll`` in ``claiming/poller.py`` claims due tasks level by level with the strategy of the database
   (``store/claiming/strategies.py``), and reads the agenda when it knows of no more. It shows the levels of limited
   handlers to ``Lanes`` in ``limits/lanes.py``, which has a thread of its own, and claims their tasks together with
   their permits (``store/limits/claiming.py``). Both ask ``Capacity`` in ``room/capacity.py`` how many to claim. A
   ``Claimer`` in ``room/claimer.py``, one for each, gives turns to their levels, and passes over tasks while the other
   one lacks room for more urgent ones;
2. start: ``Starting`` in ``starting.py`` does what follows each claim. ``Held.add`` in ``held.py`` notes the claims,
   before or within it: from now on this process answers for them;
3. admit: tasks without a handler here, those that have been rescued, and those of limited handlers pass
   ``Admission.admit`` in ``admission.py``, which releases what must not run here now. A task that the poller has
   claimed from another lane than its handler's, as after a deploy, is released into the handler's;
4. queue: ``RunQueue.put`` in ``running/run_queue.py`` groups tasks of one code into a batch, which waits in a line of
   ``room/lines.py`` until a thread is free; those of async handlers, limited or not, go to ``AwaitedRuns`` in
   ``running/awaited_runs.py``;
5. worker: ``CrewThread.run`` in ``threads/crew.py`` takes the batch; ``Performer.perform`` in ``running/worker.py``, or
   ``aperform`` on the event loop, holds it until it is due, and releases it if the lease can no longer be trusted;
6. run: ``run`` in ``running/run.py``, or ``arun`` in ``running/awaited_run.py``, refuses what is too late, and calls
   the handler (``call_and_decide``, ``middleware.caller``), inside of a transaction of ``running/atomic.py`` if the run
   is atomic;
7. decide: ``decide`` in ``running/deciding.py`` turns what the handler returned or raised into a settlement. Then the
   performer gives back the resource of a pool;
8. settle: ``Held.end`` makes room, and queues the settlement. ``Settler.write`` in ``settling/settler.py`` writes many
   of them in one transaction, by ``settle`` in ``store/settling/settle.py``. If runs leave slots, ``limits/relay.py``
   settles them, and hands the slots on in the same transaction. An atomic run has written its own settlement;
9. report: ``tally.py`` counts the end, and ``settling/failure_reports.py`` has it logged, by
   ``settling/run_log.py``, and reported if the task has failed for good. ``Held.remove`` comes last.

Around them:

- ``membership/`` keeps this executor's lease, knows its peers, and does the housekeeping;
- ``threads/`` holds what every thread of an executor needs: the loop of those that wait for the database, the crew of
  those that call a project's code and may hang, pauses, the handover to a thread that was just woken;
- ``project.py`` is the door to a project's code: whatever an executor calls of it, it calls there;
- ``process/`` starts an executor: for the command, for a supervisor, or in the caller's process.

``executor.py`` joins the parts, ``options.py`` configures them, ``held.py`` knows the claims that this process holds,
and releases those that do not start, ``admission.py`` refuses what must not run here, ``unanswered_claims.py`` releases
those whose answer was lost, and ``health.py`` says when the process must be restarted.
"""
