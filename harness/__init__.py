"""What tries the package out and is no test: torture, servers, benchmarks, the model, and the scripts behind `make`.

It imports the package and the test project, and nothing of ``tests``, which may import all of it.
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The folder of the whole project."""
