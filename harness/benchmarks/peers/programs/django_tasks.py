"""The tasks of the peers that are backends of django.tasks."""

from django.tasks import task

from harness.benchmarks.peers import recorder


@task
def nothing() -> None:
    recorder.executed()


@task
def sustained(sent: float) -> None:
    recorder.started(sent)
