"""The folder of the commands."""
