"""What every thread of an executor needs: its loop, its pauses after errors, and a clean context for each call."""
