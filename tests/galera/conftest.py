"""The tests in ``nodes/`` need a cluster: test_nodes.py starts one and runs them there. The others start their own."""
