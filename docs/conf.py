"""The configuration of Sphinx for the documentation; ``make docs`` builds it."""

import sys
from pathlib import Path

import django
from django.conf import settings

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

# Docstrings are read from the imported modules, models among them.
settings.configure(
    INSTALLED_APPS=["django.contrib.contenttypes", "django_delayed_tasks"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    USE_TZ=True,
)
django.setup()

from django_delayed_tasks import __version__  # noqa: E402 - Django has to be set up before

project = "django-delayed-tasks"
author = "django-delayed-tasks contributors"
copyright = author
version = release = __version__

# The sources are the pages as they are in the repository, so their folder is the repository: `sphinx-build -c docs .`
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "harness/verification/README.md"]
exclude_patterns = [".*", "build", "dist", "mutants", "shared"]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "harness.site.navigation",
    "harness.site.source_files",
    "harness.site.mermaid",
    "harness.site.reference",
    "harness.site.house",
]

myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
myst_enable_extensions = ["colon_fence"]

add_module_names = False
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
python_use_unqualified_type_names = True
napoleon_numpy_docstring = False

copybutton_prompt_text = r"\$ |>>> "
copybutton_prompt_is_regexp = True

html_theme = "furo"
pygments_dark_style = "a11y-high-contrast-dark"  # every color of it has a contrast of 7 to 1 or more
html_title = f"{project} {version}"
html_static_path = ["_static"]
html_search_scorer = "harness/site/scorer.js"
html_extra_path = ["_extra"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
