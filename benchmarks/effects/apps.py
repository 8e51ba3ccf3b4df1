"""The app, of which only its table matters."""

from django.apps import AppConfig


class Effects(AppConfig):
    name = "benchmarks.effects"
    label = "effects"
