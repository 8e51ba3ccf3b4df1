"""The metrics, each defined once: as pages for Prometheus and as instruments of OpenTelemetry, each with its extra."""
