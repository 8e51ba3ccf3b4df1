"""Metrics, each defined once: pages of them for Prometheus, and instruments of OpenTelemetry, are for either extra."""
