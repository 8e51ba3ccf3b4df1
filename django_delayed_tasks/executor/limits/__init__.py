"""Limits of handlers: ``max_concurrent``, ``pool`` and ``rate``. Start with ``gate.py``.

Claimed tasks of a limited handler wait at a :class:`~django_delayed_tasks.executor.limits.gate.Gate`, without a thread,
until they have their permits. Those that cannot get them soon are released, which costs them no attempt.
"""
