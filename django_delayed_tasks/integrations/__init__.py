"""Integrations with other packages, each of which the project installs if it uses it."""
