"""The end of a claim: its run is settled, or it is released or reaped; and the state that the task gets next."""
