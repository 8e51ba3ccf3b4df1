"""What runs of some handlers have to wait for: ``max_concurrent``, ``pool`` and ``rate``.

Claimed tasks of such a handler wait at a :class:`~django_delayed_tasks.executor.limits.gate.Gate`, without a thread,
until they have their ``permits``. Those that cannot get them soon are released, without an attempt.
"""
