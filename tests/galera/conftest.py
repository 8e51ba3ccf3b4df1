"""The tests in ``nodes/`` need a cluster: test_nodes.py starts one and runs them there. The others start their own."""

import os

collect_ignore = [] if os.environ.get("DDT_DATABASE") == "galera" else ["nodes"]
if os.environ.get("DDT_DATABASE") != "mariadb":
    collect_ignore += ["test_nodes.py", "test_leases.py", "test_torture.py"]
