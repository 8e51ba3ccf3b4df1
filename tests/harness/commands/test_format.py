"""``make format`` puts the code into the project's style."""

from pathlib import Path

import pytest
from django.conf import settings

from tests.harness.making import make

__test__ = settings.DDT_DATABASE == "sqlite"


@pytest.mark.parametrize("folder", ["django_delayed_tasks", "harness", "testproject", "tests"])
def test_a_file_in_bad_style(project: Path, folder: str) -> None:
    file = project / folder / "in_bad_style.py"
    file.write_text("import sys\nimport os\nNUMBERS = [1,2 , len( sys.argv )]\n")
    formatted = make("format", folder=project)
    assert formatted.returncode == 0, formatted.stdout
    assert file.read_text() == "import sys\n\nNUMBERS = [1, 2, len(sys.argv)]\n"
