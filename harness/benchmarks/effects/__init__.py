"""The rows that the handlers of the benchmarks write, in addition to the tasks."""
