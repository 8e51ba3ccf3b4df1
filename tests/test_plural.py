"""Words of messages agree with their number."""

import ast
import re
from pathlib import Path

import django_delayed_tasks
from django_delayed_tasks.support.durations import plural

PACKAGE = Path(django_delayed_tasks.__file__).parent
CHOOSING = ("plural", "ngettext", "ngettext_lazy")
NUMBER_AND_WORDS = re.compile(r"%d (tasks|runs|claims|executors|resources|threads|queues|processes)\b")


def test_words_agree_with_their_number() -> None:
    assert [f"{count} {plural(count, 'run')}" for count in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]
    assert [plural(count, "task waits", "tasks wait") for count in (1, 2)] == ["task waits", "tasks wait"]


def test_no_message_counts_without_a_singular() -> None:
    """A text with a number and a plural is one that ``plural`` or ``ngettext`` chooses, or the number is above one."""
    found = [
        f"{path.relative_to(PACKAGE)}: {text}"
        for path in PACKAGE.rglob("*.py")
        for text in texts(ast.parse(path.read_text()))
        if NUMBER_AND_WORDS.search(text)
    ]
    assert sorted(found) == [
        "executor/settling/run_log.py: %s: a batch of %d tasks such as %s failed and is run one by one: %s",
    ]


def texts(tree: ast.AST) -> list[str]:
    """The string constants that are not an argument of one of the functions that choose."""
    chosen = {
        argument
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in CHOOSING
        for argument in call.args
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in chosen
    ]
