"""Tests with programs and packages from outside, such as a browser or Prometheus. They run on one database."""
