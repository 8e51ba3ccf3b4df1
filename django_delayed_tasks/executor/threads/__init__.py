"""Parts of every thread of an executor: its loop, and its pauses after errors."""
