"""Parts of every thread of an executor: its loop, its pauses after errors, and a clean context for each call."""
