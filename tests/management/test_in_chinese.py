"""Commands in Simplified Chinese: no English words are left, apart from names, codes and values."""

import io
import json
import re
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import pytest
from django.core.management import CommandError, call_command
from django.utils import translation

from django_delayed_tasks import pause_queue
from django_delayed_tasks.executor.options import from_settings
from django_delayed_tasks.executor.process.progress_bar import ProgressBar
from django_delayed_tasks.management.commands import starttask
from django_delayed_tasks.models import Resource
from django_delayed_tasks.states import RunOutcome, TaskStatus
from tests.admin.rows import CODE, HOUR, MINUTE, NOW, executor, run, task
from tests.management.conftest import Call
from tests.stats.conftest import frozen  # noqa: F401
from tests.stats.fills import ended

CODES: Final = {"OK", "UNHEALTHY", "UNKNOWN", "CEST", "JSON"}
"""Words that scripts read, and the zone of the clock."""
VALUES: Final = {"test", "shop", "mail", "web", "example", "org", "gateways", "Declined", "default", "code"}

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("frozen", "in_chinese")]


@pytest.fixture
def in_chinese() -> Iterator[None]:
    with translation.override("zh-hans"):
        yield


def english(text: str, *allowed: str) -> list[str]:
    return sorted(set(re.findall(r"[A-Za-z]{2,}", text)) - CODES - VALUES - set(allowed))


def fill() -> None:
    owner = executor("web1", queues=["shop"], codes=[CODE])
    executor("web2", codes=[CODE])
    task("1", NOW - 5 * MINUTE, claim_at=NOW - 5 * MINUTE, queue="mail")
    task("2", NOW + 10 * MINUTE, queue="shop")
    task("3", status=TaskStatus.RUNNING, update_time=NOW - MINUTE, executor=owner.pk, progress_fraction=0.5)
    task("4", status=TaskStatus.FAILED, last_error="5")
    run("4", RunOutcome.FAILED)
    ended(20, NOW - 5 * MINUTE)
    ended(3, NOW - 3 * MINUTE, outcome=RunOutcome.FAILED, error="shop.Declined")
    Resource.objects.create(pool="gateways", name="1", busy_before=NOW + HOUR, version=1)


def test_taskstatus(call: Call) -> None:
    fill()
    pause_queue("shop")
    for span in ("hour", "day", "week"):
        out = call("taskstatus", "--span", span).out
        assert "2 个执行器存活，延迟 5 分钟（1 个任务）" in out
        assert english(out) == []


def test_columns_are_below_each_other(call: Call) -> None:
    """A Chinese character is as wide as two others on a terminal."""
    fill()
    head, *rows = call("tasks", "list").out.splitlines()
    ends = {len(row[: row.index("2031")].encode("gbk")) for row in rows}
    assert ends == {len(head[: head.index("计划时间")].encode("gbk"))}


def test_tasks(call: Call) -> None:
    fill()
    wanted = {
        ("list",): "等待中",
        ("next",): "可认领时间",
        ("next", "--until", "1h"): "触发器",
        ("run-now", CODE, "2"): "任务现在已到期。",
        ("retry", CODE, "--all"): "1 个失败的任务已重新等待执行。",
        ("cancel", CODE, "--all", "--dry-run"): "选中了 4 个任务。",
        ("reschedule", CODE, "2", "--by", "2h"): "已将 1 个任务改期。",
        ("cancel", CODE, "2", "--yes"): "已取消 1 个任务。",
        ("cancel", CODE, "2", "--yes", "--format", "text"): f"没有更改任何任务：{CODE} 没有编号为 2 的任务。",
        ("cancel", CODE, "--match", "9"): "没有更改任何任务：任务不存在，或其状态不允许此操作。",
        ("run-now", CODE, "3"): f"{CODE} 3 的状态为“执行中”；只有等待中的任务可以立即执行。",
        ("retry", CODE, "1"): f"{CODE} 1 的状态为“等待中”；只有失败的任务可以重试。",
        ("show", CODE, "2"): "现在没有这个任务；以下是它最近的执行记录。",
        ("show", CODE, "no such"): "没有这个任务。",
    }
    for arguments, said in wanted.items():
        called = call("tasks", *arguments)
        assert said in called.out + called.err
        assert english(called.out + called.err) == []
    shown = call("tasks", "show", CODE, "4").out
    assert "第 1 次尝试" in shown
    assert "\n计划时间    2" in shown  # aligned with 最近的错误, which takes two places more
    assert english(shown, "id") == []


def test_json_is_in_english(call: Call) -> None:
    fill()
    shown = json.loads(call("tasks", "show", CODE, "4", "--format", "json").out)
    assert (shown["status"], shown["runs"][0]["outcome"]) == ("failed", "failed")
    seen = json.loads(call("taskstatus", "--format", "json").out)
    assert "late" in {problem["kind"] for problem in seen["problems"]}


def test_taskhealth(call: Call) -> None:
    assert call("taskhealth").out == "UNHEALTHY: 0 个执行器存活，需要 1 个\n"
    fill()
    called = call("taskhealth", "--max-failed", "1")
    assert called.out == "UNHEALTHY: 队列 mail 延迟 5 分钟（上限 60 秒）; 最近一小时有 3 次执行失败（上限 1）\n"
    in_time = "OK: 2 个执行器存活, 最迟的任务延迟 5 分钟（上限 3600 秒）\n"
    assert call("taskhealth", "--max-late", "3600").out == in_time


def test_prunetasks(call: Call) -> None:
    run("1", finished=NOW - timedelta(days=9))
    assert call("prunetasks", "--older-than", "7d", "--dry-run").out == "更早的执行记录有 1 条。\n"
    with pytest.raises(CommandError, match=r"删除 1 条执行记录？此操作无法撤销。没有可供询问的终端：.*--yes"):
        call("prunetasks", "--older-than", "7d")
    assert call("prunetasks", "--older-than", "7d", "--yes").out.startswith("已删除：1 条执行记录，用时 ")


def test_pausequeue(call: Call) -> None:
    said = [call("pausequeue", "mail", *more).out for more in ([], [], ["--resume"], ["--resume"])]
    assert said == [
        "队列 'mail' 已暂停。\n",
        "队列 'mail' 已经是暂停状态。\n",
        "队列 'mail' 已恢复。\n",
        "队列 'mail' 本来就没有暂停。\n",
    ]
    assert call("pausequeue").err == "没有已暂停的队列。\n"
    assert call("pausequeue", "mial").err == "没有任务、处理器或执行器使用这个队列：名称写对了吗？\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["runmutex", "nightly"], "要运行哪条命令？请在末尾的 -- 之后给出"),
        (["runmutex", "nightly", "--database", "no"], "没有数据库 'no'；可用的别名有 default"),
        (["pausequeue", "--resume"], "哪个队列？pausequeue NAME --resume"),
        (["importbeat"], "INSTALLED_APPS 中没有 django_celery_beat"),
        (["importtasks", "django-q2"], "INSTALLED_APPS 中没有 django_q"),
        (["taskstatus", "--interval", "0"], "--interval=0：必须大于 0"),
        (["taskhealth", "--max-late=-1"], "--max-late=-1：不能为负数"),
        (["starttask", "--processes", "0"], "--processes=0：必须在 1 到 1000 之间"),
        (["starttask", "--reload", "--processes", "2"], "--reload 只用于单个进程；请去掉 --processes"),
        (["starttask", "--queues", ","], "--queues=','：没有指定队列"),
        (["starttask", "--health-port", "0"], "--health-port=0：必须在 1 到 65535 之间"),
    ],
)
def test_errors(arguments: list[str], message: str) -> None:
    more: dict[str, Any] = {"command": ["true"]} if "--database" in arguments else {}
    with pytest.raises(CommandError) as caught:
        call_command(*arguments, **more)
    assert str(caught.value).startswith(message)


def test_the_banner_of_starttask() -> None:
    out = io.StringIO()
    command = starttask.Command(stdout=out)
    command._out = sys.stdout
    command._banner(
        from_settings(name="web1", threads=3, queues=("mail",), exclude_queues=("shop",), poll_interval=1.0)
    )
    command._ready("web1")
    title, *lines = out.getvalue().splitlines()
    assert title.endswith("：执行器 web1")
    assert [line.split()[0] for line in lines[:4]] == ["数据库", "队列", "线程数", "处理器"]
    assert len({len(line[: line.index(line.split()[1])].encode("gbk")) for line in lines[:4]}) == 1
    assert lines[1:3] == ["  队列      mail（shop 除外）", "  线程数    3，每 1 秒轮询一次"]
    assert lines[4] == "就绪（执行器 web1）。按 Ctrl-C 平稳停止。"


def test_the_last_line_of_a_drained_executor() -> None:
    stream = io.StringIO()
    bar = ProgressBar(3, stream)
    bar.close(3)
    assert re.fullmatch(r"已清空：3 次执行，用时 \d+\.\d 秒。\n", stream.getvalue())
