"""The tests in ``nodes/`` and ``single/`` need a cluster: test_nodes.py starts one for each and runs them there."""
