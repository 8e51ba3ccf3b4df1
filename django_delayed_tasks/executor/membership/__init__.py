"""Which executors are alive: this one's lease and heartbeat, its peers, and the housekeeping that each does for all."""
