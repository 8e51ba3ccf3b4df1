"""The executor: it claims due tasks, runs their handlers, and settles the runs.

START READING in ``running/runner.py``: one run, from the call of the handler to the settlement. A task passes through
the rooms in this order:

- ``claiming/`` decides what to claim next and how much of it;
- ``limits/`` makes tasks of limited handlers wait until they have their permits;
- ``running/`` runs tasks in worker threads and decides how each run ends;
- ``settling/`` writes those ends to the database and reports final failures.

Around them:

- ``membership/`` keeps this executor's lease, knows its peers, and does the housekeeping;
- ``threads/`` holds what every thread of an executor needs: its loop, its pauses, its connections;
- ``process/`` starts an executor: for the command, for a supervisor, or in the caller's process.

``executor.py`` joins the parts, ``options.py`` configures them, ``held.py`` knows the claims that this process holds,
and ``health.py`` says when the process must be restarted.
"""
