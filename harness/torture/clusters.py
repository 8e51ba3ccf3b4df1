"""``python -m harness.torture.clusters [--cluster KIND] [--seconds N] [--seed N] …``: everything about one cluster.

Takes the options of ``python -m harness.torture``; what is left out is chosen for a run of about four minutes.
"""

import argparse
import sys
from collections.abc import Sequence

from harness.torture.command import main as torture

SCENARIOS = {
    "galera": ("nodes", "nodes-in-turn", "node-cut", "galera-conflicts"),
    # Not "nodes": with several primary nodes MySQL 9.7 decides nothing more when one of them dies under this load.
    "groupreplication": ("nodes-in-turn",),
    "groupreplication-single": ("nodes", "nodes-in-turn"),
    "patroni": ("nodes", "nodes-in-turn", "leader-cut"),
}
SECONDS = 150.0
"""The load under faults; the other scenarios, and the drain at the end, come on top."""


def main(arguments: Sequence[str]) -> int:
    """Run ``python -m harness.torture`` with the defaults for a cluster."""
    parser = argparse.ArgumentParser(prog="python -m harness.torture.clusters", allow_abbrev=False)
    parser.add_argument("--cluster", choices=SCENARIOS, default="galera", help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of load under faults (default: %(default)g)")
    given, rest = parser.parse_known_args(arguments)
    chosen = ["--databases", given.cluster, "--minutes", str(given.seconds / 60)]
    if not any(word.partition("=")[0] == "--scenario" for word in rest):
        chosen += [word for name in SCENARIOS[given.cluster] for word in ("--scenario", name)]
    return torture([*chosen, *rest])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
