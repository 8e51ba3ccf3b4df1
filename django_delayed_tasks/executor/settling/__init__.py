"""The end of runs is written: settlements, failures that are told, progress."""
