"""The limits of handlers, ``max_concurrent``, ``pool`` and ``rate``: start with ``lanes.py``.

A task of a limited handler is claimed by :class:`~django_delayed_tasks.executor.limits.lanes.Lanes`, together with its
permits.
"""
