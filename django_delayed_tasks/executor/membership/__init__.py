"""Who is alive: this executor's lease and heartbeat, its peers, and the duties that any executor does for all."""
