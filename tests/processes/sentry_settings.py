"""Settings of a project that has followed docs/how-to/operate.md for Sentry; the transport notes what would be sent."""

import json
import os
from pathlib import Path
from typing import Any

from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from harness.processes_of_folder import VARIABLE
from tests import pages
from tests.processes.folder import EVENTS
from tests.processes.settings import *  # noqa: F403

OPERATE = pages.ROOT / "docs/how-to/operate.md"
DSN = "https://key@sentry.invalid/1"


class Noting(Transport):
    """Writes each event as a line of a file."""

    def capture_envelope(self, envelope: Envelope) -> None:
        event = envelope.get_event()
        if event is not None:
            with Path(os.environ[VARIABLE], EVENTS).open("a") as file:
                file.write(json.dumps(event) + "\n")


def follow(page: Path, dsn: str) -> None:
    """Run the example that sets Sentry up, with a transport of our own."""
    [example] = [block.text for block in pages.blocks(page, "python") if "sentry_sdk.init(" in block.text]
    os.environ["SENTRY_DSN"] = dsn
    names: dict[str, Any] = {"Noting": Noting, "DELAYED_TASKS": globals()["DELAYED_TASKS"]}
    exec(example.replace("sentry_sdk.init(", "sentry_sdk.init(transport=Noting, "), names)


follow(OPERATE, DSN)
