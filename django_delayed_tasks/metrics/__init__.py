"""Metrics for Prometheus; they need the extra ``metrics``."""
