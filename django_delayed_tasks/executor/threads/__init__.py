"""What every thread of an executor needs: its loop, its pauses after errors, its database connections."""
