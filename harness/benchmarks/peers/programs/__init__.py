"""Programs that run in the environments of the peers."""
