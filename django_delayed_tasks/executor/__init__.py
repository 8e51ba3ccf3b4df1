"""The executor: it claims due tasks, runs their handlers, and settles the runs.

START READING in ``running/run.py``: one run, from the call of the handler to the settlement. A task passes through
the rooms in this order:

- ``claiming/`` decides what to claim next and how much of it;
- ``limits/`` claims tasks of limited handlers together with their permits;
- ``running/`` runs tasks in worker threads and on an event loop, and decides how each run ends;
- ``settling/`` writes those ends to the database and reports final failures.

The way of one task, file by file:

1. claim: ``claiming/poller.py`` claims due tasks level by level, and reads the agenda when it knows of no more;
2. admit: ``limits/admission.py`` releases tasks without a handler here and further crash suspects; ``limits/lanes.py``
   claims and admits the tasks of limited handlers;
3. queue: ``running/run_queue.py`` keeps the task until a thread is free, and groups tasks of one code into a batch;
4. worker: ``running/worker_pool.py`` has the threads; in one, ``running/worker.py`` holds the task until it is due.
   The task of an async handler goes to the event loop instead, with ``running/awaited_runs.py``;
5. run: ``running/run.py`` calls the handler, inside of a transaction of ``running/atomic.py`` if the run is atomic;
6. decide: ``running/deciding.py`` turns what the handler returned or raised into a settlement;
7. settle: ``settling/settler.py`` writes the settlement (an atomic run has written its own), and
   ``settling/failure_reports.py`` and ``settling/run_log.py`` report the end.

Around them:

- ``membership/`` keeps this executor's lease, knows its peers, and does the housekeeping;
- ``threads/`` holds what every thread of an executor needs: its loop, its pauses, its clean contexts;
- ``process/`` starts an executor: for the command, for a supervisor, or in the caller's process.

``executor.py`` joins the parts, ``options.py`` configures them, ``held.py`` knows the claims that this process holds,
and ``health.py`` says when the process must be restarted.
"""
