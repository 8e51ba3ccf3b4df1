"""How a claim ends: settled, released or reaped, with the state of the task that follows."""
