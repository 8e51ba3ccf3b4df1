"""One alias for each node: see tests/cluster_nodes.py."""

from tests.cluster_nodes import aliases, emptied_again_if_refused, moving, nodes
from tests.cluster_nodes import on_all_nodes as pytest_itemcollected
from tests.store.fixtures import any_code

__all__ = ["aliases", "any_code", "emptied_again_if_refused", "moving", "nodes", "pytest_itemcollected"]
