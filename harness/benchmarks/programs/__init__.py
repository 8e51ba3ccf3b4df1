"""Programs that a case starts, each a process of its own. Each prints its answer as JSON, on its last line."""
