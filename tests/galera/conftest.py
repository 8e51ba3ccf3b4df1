"""The tests in ``nodes/`` need a cluster of their own: test_nodes.py starts one and runs them there."""

import os

collect_ignore = [] if os.environ.get("DDT_DATABASE") == "galera" else ["nodes"]
if os.environ.get("DDT_DATABASE") != "mariadb":
    collect_ignore.append("test_nodes.py")
