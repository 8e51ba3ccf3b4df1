"""What the documentation says is so: its links lead somewhere, its names exist, its examples can be followed."""

import inspect
import json
import re
import subprocess
import sys
import tomllib
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand
from django.dispatch import Signal

import django_delayed_tasks
from django_delayed_tasks import TaskHandler, conf, exceptions, signals, states, testing
from django_delayed_tasks.executor.options import ExecutorOptions
from django_delayed_tasks.models import (
    Executor,
    Overview,
    PausedQueue,
    Recurrence,
    Resource,
    Statistic,
    Success,
    Task,
    TaskRun,
    Waiter,
)
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from harness.benchmarks import summary
from harness.benchmarks.figures import read
from harness.site.constants import constants
from tests import pages
from tests.pages import PACKAGE, README, ROOT, names, rows

API = ROOT / "docs/reference/api.md"
COMMANDS = ROOT / "docs/reference/commands.md"
HANDLERS = ROOT / "docs/reference/handlers.md"
MODELS = ROOT / "docs/reference/models.md"
PROMISES = ROOT / "docs/explanation/promises.md"
TESTING = ROOT / "docs/reference/testing.md"
SETTINGS = ROOT / "docs/reference/settings.md"

every_page = pytest.mark.parametrize("page", pages.ALL, ids=lambda page: str(page.relative_to(ROOT)))


@every_page
def test_links_lead_somewhere(page: Path) -> None:
    assert [link.target for link in pages.links(page) if not link.leads_somewhere()] == []


@every_page
def test_page_can_be_reached_from_the_readme(page: Path) -> None:
    assert page in pages.reachable(README)


def test_named_tests_exist() -> None:
    shown = [link for link in pages.links(PROMISES) if link.text.startswith("test_")]
    assert len(shown) > 10
    assert [link.text for link in shown if f"def {link.text}(" not in link.file.read_text()] == []


def test_each_promise_names_a_test() -> None:
    promises = re.split(r"^\d+\. ", pages.prose(PROMISES), flags=re.MULTILINE)[1:]
    assert len(promises) == 10
    assert [promise for promise in promises if "[test_" not in promise] == []


@every_page
def test_python_examples_compile_and_name_what_exists(page: Path) -> None:
    problems = [problem for block in pages.blocks(page, "python") for problem in block.problems()]
    assert problems == []


def test_public_names_are_those_of_the_reference() -> None:
    public = set(django_delayed_tasks.__all__) - {"__version__"}
    assert set(documented_names()) == public


def documented_names() -> dict[str, str]:
    """Return each name that has a heading of its own in the API reference, with the heading."""
    return headings(API)


def headings(page: Path) -> dict[str, str]:
    """Return each name that has a heading of its own on a page, with the heading."""
    found = re.findall(r"^### `(\w+)(.*)`$", page.read_text(), re.MULTILINE)
    return {name: name + rest for name, rest in found}


@pytest.mark.parametrize("name", [name for name in django_delayed_tasks.__all__ if name != "__version__"])
def test_signature_is_that_of_the_reference(name: str) -> None:
    heading = documented_names()[name]
    value = getattr(django_delayed_tasks, name)
    if "(" in heading or inspect.isfunction(value):
        assert heading == f"{name}({', '.join(shown_parameters(value))})"


def shown_parameters(function: Any) -> list[str]:
    shown: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not any(one.startswith("*") for one in shown):
            shown.append("*")
        stars = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else stars
        shown.append(f"{stars}{parameter.name}{shown_default(parameter.default)}")
    return shown


def shown_default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return ""
    return f"={json.dumps(str(value))}" if isinstance(value, str) else f"={value!r}"


def test_the_names_of_the_testing_kit_are_those_of_the_reference() -> None:
    assert set(headings(TESTING)) == set(testing.__all__)


@pytest.mark.parametrize("name", [name for name in testing.__all__ if inspect.isfunction(getattr(testing, name))])
def test_signature_of_the_testing_kit_is_that_of_the_reference(name: str) -> None:
    assert headings(TESTING)[name] == f"{name}({', '.join(shown_parameters(getattr(testing, name)))})"


@pytest.mark.parametrize("name", ["Ran", "Runs", "Journey", "LiveExecutor"])
def test_members_of_the_testing_kit_are_those_of_the_reference(name: str) -> None:
    value = getattr(testing, name)
    own = {member for member in (*vars(value), *inspect.get_annotations(value)) if member[0] != "_"}
    documented = {shown.partition("(")[0] for row in rows(TESTING, f"`{name}`") for shown in names([row])}
    assert own <= documented


def test_start_takes_the_options_of_the_reference() -> None:
    documented = names(rows(API, "`start(**options)`"))
    assert documented == {field.name for field in fields(ExecutorOptions)}


def test_a_run_sees_the_attributes_of_the_reference() -> None:
    documented = names(rows(API, "What `handle` gets"))
    public = {name for name in dir(ClaimedTask) if not name.startswith("_")} - {"claim"}
    assert documented == public


def test_signals_are_those_of_the_reference() -> None:
    found = {name for name, value in vars(signals).items() if isinstance(value, Signal)}
    assert names(rows(API, "Signals")) == found


def test_exceptions_are_those_of_the_reference() -> None:
    found = {name for name, value in vars(exceptions).items() if inspect.isclass(value) and is_ours(value)}
    assert names(rows(API, "Exceptions")) == found


def is_ours(value: type) -> bool:
    return value.__module__ == exceptions.__name__


@pytest.mark.parametrize("enumeration", [states.TaskStatus, states.RunOutcome])
def test_states_are_those_of_the_reference(enumeration: Any) -> None:
    [members] = [row[1] for row in rows(API, "States") if row[0] == f"`{enumeration.__name__}`"]
    assert members == ", ".join(f"`{member.name}` {member.value}" for member in enumeration)


@pytest.mark.parametrize("enumeration", [states.AddAction, states.CancelResult])
def test_results_are_those_of_the_reference(enumeration: Any) -> None:
    assert names([[pages.section(API, f"`{enumeration.__name__}`")]]) == {member.name for member in enumeration}


def test_attributes_of_handlers_are_those_of_the_reference() -> None:
    defaults = {row[0].strip("`"): row[1].strip("`") for row in rows(HANDLERS, "Attributes")}
    assert defaults.pop("biz_code") == "required"
    found = {name: shown_default(getattr(TaskHandler, name))[1:] for name in TaskHandler.__annotations__}
    del found["biz_code"]
    assert defaults == found


@pytest.mark.parametrize(
    "name",
    [
        "starttask",
        "tasks",
        "prunetasks",
        "taskstatus",
        "taskhealth",
        "pausequeue",
        "runmutex",
        "importbeat",
        "importtasks",
    ],
)
def test_options_of_the_command_are_those_of_the_reference(name: str) -> None:
    own = options_of(load_command_class(get_commands()[name], name)) - options_of(BaseCommand())
    assert names(rows(COMMANDS, f"`{name}`")) == own


def options_of(command: BaseCommand) -> set[str]:
    return set(options_in(command.create_parser("manage.py", "any")))


def options_in(parser: ArgumentParser) -> Iterator[str]:
    """The long options of a parser and of its sub-parsers."""
    for action in parser._actions:
        yield from (option for option in action.option_strings if option.startswith("--"))
        if isinstance(action, _SubParsersAction):
            for verb in action.choices.values():
                yield from set(options_in(verb)) - {"--help"}


@pytest.mark.parametrize(
    "model", [Task, TaskRun, Executor, Success, PausedQueue, Recurrence, Resource, Waiter, Statistic, Overview]
)
def test_fields_are_those_of_the_reference(model: Any) -> None:
    documented = {row[0].strip("`"): row[1] for row in rows(MODELS, model.__name__)}
    found = {field.name: field for field in model._meta.fields}
    assert list(documented) == list(found)
    assert {name for name, kind in documented.items() if "null" in kind} == {
        name for name, field in found.items() if field.null
    }
    lengths = {name: re.findall(r"\d+", kind) for name, kind in documented.items()}
    assert lengths == {name: [str(field.max_length)] if field.max_length else [] for name, field in found.items()}


def test_settings_are_those_of_the_reference() -> None:
    documented = {row[0].strip("`"): row[1].strip("`") for row in rows(SETTINGS, "Settings")}
    assert documented == {field.name: shown_setting(field.default) for field in fields(conf.Values)}


def shown_setting(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g} s"
    return f"timedelta(days={value.days})" if hasattr(value, "days") else shown_default(value)[1:]


def test_the_loggers_of_the_log_are_those_of_the_package() -> None:
    package = ROOT / PACKAGE
    modules = {".".join(path.relative_to(package).with_suffix("").parts): path for path in package.rglob("*.py")}
    logging = {name for name, path in modules.items() if re.search(r"^\w+ = .*\(__name__\)$", path.read_text(), re.M)}
    documented = names(rows(ROOT / "docs/how-to/operate.md", "The log"))
    assert len(documented) == 12
    assert documented - logging == {"run"}
    assert 'Log("django_delayed_tasks.run")' in modules["executor.settling.run_log"].read_text()


def test_every_numeric_constant_says_what_it_bounds() -> None:
    assert [f"{one.module} {one.name}" for one in constants() if not one.meaning] == []


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs/decisions"
    listed = [link.file.name for link in pages.links(folder / "README.md") if link.file.name[:4].isdigit()]
    assert sorted(set(listed)) == sorted(path.name for path in folder.glob("[0-9]*.md"))


def test_data_migrations_depend_on_the_latest_migration() -> None:
    *_, latest = sorted(path.stem for path in (ROOT / PACKAGE / "migrations").glob("0*.py"))
    for page in ("how-to/deploy.md", "examples/own-task-table/README.md"):
        assert f'("{PACKAGE}", "{latest}")' in (ROOT / "docs" / page).read_text()


def test_the_readme_fits_in_150_lines() -> None:
    assert len(README.read_text().splitlines()) <= 150


@pytest.mark.parametrize("readme", [README, README.with_suffix(".zh-CN.md")], ids=lambda page: page.name)
def test_figures_of_the_readme_are_those_of_its_proofs(readme: Path) -> None:
    figures, _ = read(ROOT / "docs/benchmarks/results.json")
    rates = [round(rate, -3) for rate in (min(summary.rates(figures)), max(summary.rates(figures)))]
    late = [summary.latest(figures, variant) for variant in ("known ahead", "added at once")]
    slowest = summary.slowest_growth(figures)
    assert slowest
    proven = {*(f"{number:,.0f}" for number in (*rates, *survived())), *map(str, late), f"{slowest[1]:.2f}"}
    assert proven <= set(re.findall(r"\d[\d,.]*(?<=\d)", readme.read_text()))
    assert summary.early(figures) == 0


def survived() -> tuple[int, int]:
    """Return how many faults on clusters the pages on clusters report, and how many tasks."""
    cluster, patroni = ROOT / "docs/how-to/cluster.md", ROOT / "docs/how-to/patroni.md"
    galera = [(row[1], row[3]) for row in rows(cluster, "What was tested") if row[0].isdecimal()]
    others = (
        r"in ten minutes with (\d+) faults, .* 0 of ([\d,]+) tasks were lost",
        r"with (\d+) faults, 0 of (\S+) tasks were lost",
    )
    found = [
        pair
        for page, pattern in zip((cluster, patroni), others, strict=True)
        for pair in re.findall(pattern, " ".join(page.read_text().split()))
    ]
    assert len(found) == 2
    faults, tasks = zip(*galera, *found, strict=True)
    return sum(map(int, faults)), sum(int(count.replace(",", "")) for count in tasks)


@every_page
def test_lines_have_at_most_120_characters(page: Path) -> None:
    """But for tables, links, headings, which are signatures in the reference, and Chinese."""
    long = [line for line in pages.prose(page).splitlines() if len(line) > 120 and not line.startswith(("|", "#"))]
    assert "zh-CN" in page.name or [line for line in long if "](http" not in line] == []


def test_a_project_without_a_public_address_says_so() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    says_so = "no public address yet" in (ROOT / "docs/explanation/faq.md").read_text()
    assert says_so == ("urls" not in project)


def test_extras_are_those_of_the_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for_work_on_the_package = {"test", "bench", "docs", "dev"}
    assert names(rows(ROOT / "docs/how-to/install.md", "Extras")) == set(extras) - for_work_on_the_package


def test_the_name_of_an_installed_package_is_enough_to_add_an_extra() -> None:
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "django-delayed-tasks[testing]"]
    done = subprocess.run(pip, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "Would install" in done.stdout) == (0, False), done.stderr
