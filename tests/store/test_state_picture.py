"""The picture of the states in ``docs/explanation/design.md`` shows the changes of the state table, and no others."""

import re

from tests.pages import ROOT, blocks
from tests.store import test_state_table, test_state_table_recurring

EDGE = re.compile(r"^ +(\w+)(?:\(.*\))? -- (.+) --> (\w+)", re.MULTILINE)
STATUSES = {
    "ABSENT": {"absent"},
    "ENDED": {"gone"},
    "RUNNING": {"running", "stopping", "deferred", "moving", "disarmed", "rearmed", "removed", "pausing", "halting"},
    "PAUSED": {"paused"},
    "FAILED": {"failed", "lost"},
}
"""The words in the names of states in the table, by the box of the picture; all others are PENDING."""


def box(state: str) -> str:
    words = set(re.split(r"[ ,]+", state))
    return next((name for name, its_words in STATUSES.items() if words & its_words), "PENDING")


def in_the_table() -> set[tuple[str, str]]:
    """Return the changes from one box to another that cells of the table have."""
    cells = [*test_state_table.CELLS, *test_state_table_recurring.CELLS]
    changes = {(box(before), box(after)) for _, before, _, after, *_ in cells}
    return {(before, after) for before, after in changes if before != after and after != "ABSENT"} - {
        ("ABSENT", "ENDED")  # nothing was there, and nothing is
    }


def test_picture_shows_the_changes_of_the_table() -> None:
    [picture] = [
        block.text for block in blocks(ROOT / "docs/explanation/design.md", "mermaid") if "states" in block.text
    ]
    drawn = {(before, after) for before, _, after in EDGE.findall(picture)}
    assert len(EDGE.findall(picture)) == picture.count("-->")
    assert drawn == in_the_table()
