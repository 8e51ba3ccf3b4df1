"""The torture harness: real servers, real processes, faults at random, and a ledger that tells what came of it.

``python -m harness.torture --minutes 10``; ``--list`` names the scenarios. Start reading in ``scenario.py`` and
``world.py``.
"""
