"""Other queues, as installed packages, measured in the same run as the product.

They live in environments of their own (:mod:`harness.benchmarks.peers.environments`) and are run as a user runs them:
their own worker command, in processes of its own. What cannot be had on a machine is reported and left out.
"""
