"""How a claim ends: its run is settled, or it is released or reaped; and the state that the task gets next."""
