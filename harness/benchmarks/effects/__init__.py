"""What the handlers of the benchmarks write, beside the tasks."""
