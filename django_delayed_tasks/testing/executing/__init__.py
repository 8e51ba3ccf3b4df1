"""An executor in one thread: its parts, and what stands in for its other threads."""
