"""The app, of which only its table matters."""

from django.apps import AppConfig


class Effects(AppConfig):
    name = "harness.benchmarks.effects"
    label = "effects"
