"""How a thread of an executor lives: its loop, its pauses after errors, its database connections."""
