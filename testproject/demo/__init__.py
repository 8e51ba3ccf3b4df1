"""``python -m testproject.demo``: the shop at work, driven over HTTP and checked.

Begin reading in ``__main__``, then ``performance``.
"""
