"""The report at the end: a table for people, a document for programs."""

import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from harness.torture.scenario import Scenario

SHOWN = 20
WIDTH = 105
_HEAD = ("scenario", "database", "seconds", "faults", "tasks", "runs", "lost", "doubled", "recovery", "verdict")
_FORM = "{:<18} {:<14} {:>8} {:>7} {:>7} {:>7} {:>6} {:>8} {:>9}  {}"


def document(results: Sequence[dict[str, Any]], seed: str, size: str) -> dict[str, Any]:
    """Everything, as JSON. ``verdict`` is KEPT when all are."""
    faults: Counter[str] = Counter()
    for one in results:
        faults.update(one["faults"])
    kept = bool(results) and all(one["verdict"] == "KEPT" for one in results)
    totals = {key: sum(one[key] for one in results) for key in ("tasks", "calls", "runs", "lost", "doubled")}
    slowest = [one["longest_recovery"] for one in results if one["longest_recovery"] is not None]
    return {
        "verdict": "KEPT" if kept else "BROKEN",
        "seed": seed,
        "size": size,
        "machine": platform.platform(),
        "faults": dict(faults.most_common()),
        "totals": {**totals, "faults": faults.total(), "longest_recovery": max(slowest, default=None)},
        "results": sorted(results, key=lambda one: (one["number"], one["scenario"], one["database"])),
    }


def text(document: dict[str, Any]) -> str:
    """The table, the faults by kind, what was found out, what is broken, the verdict."""
    parts = [
        "",
        _table(document["results"], document["totals"]),
        "",
        *_faults(document["faults"]),
        *_facts(document["results"]),
        *_broken(document["results"]),
        f"Seed {document['seed']}: the same seed throws the same dice; what processes make of them is never the same.",
        f"Verdict: {_verdict(document)}",
    ]
    return "\n".join(parts)


def _table(results: Iterable[dict[str, Any]], totals: dict[str, Any]) -> str:
    lines = [_FORM.format(*_HEAD), "-" * WIDTH]
    for one in results:
        lines.append(
            _FORM.format(
                one["scenario"], one["database"], f"{one['seconds']:.0f}", sum(one["faults"].values()),
                one["tasks"], one["runs"], one["lost"], one["doubled"], _seconds(one["longest_recovery"]),
                one["verdict"],
            )
        )  # fmt: skip
    lines.append("-" * WIDTH)
    last = ("", "", "", totals["faults"], totals["tasks"], totals["runs"], totals["lost"], totals["doubled"])
    lines.append(_FORM.format("total", *last[1:], _seconds(totals["longest_recovery"]), ""))
    return "\n".join(line.rstrip() for line in lines)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


def _faults(faults: dict[str, int]) -> list[str]:
    return ["Faults injected:", *(f"  {count:6,d}  {kind}" for kind, count in faults.items()), ""] if faults else []


def _facts(results: Iterable[dict[str, Any]]) -> list[str]:
    lines = []
    for one in results:
        told = list(one["facts"])
        if one["longest_recovery_of"]:
            told.append(f"longest recovery {_seconds(one['longest_recovery'])}: {one['longest_recovery_of']}")
        if one["longest_takeover"] is not None:
            told.append(f"longest until the claims of a dead executor were taken: {_seconds(one['longest_takeover'])}")
        told += [
            f"from an executor's death until its {whose} tasks were claimed again: p50 {_seconds(found['p50'])},"
            f" p99 {_seconds(found['p99'])}, longest {_seconds(found['longest'])}, {found['count']} in all"
            for whose, found in one["claimed_again"].items()
            if found["count"]
        ]
        seconds, deaths = one["longest_row_of_deaths"]
        if deaths:
            told.append(
                f"longest until a task ran again whose executors died {deaths} times in a row: {_seconds(seconds)}"
            )
        told.append(
            f"{one['calls']} calls accepted ({one['unanswered']} of them with a lost answer), {one['rescued']} tasks"
            f" rescued, {one['zombie_runs']} runs without their claim, {one['atomic_effects']} atomic effects,"
            f" {one['failed']} failed"
        )
        lines += [f"{one['scenario']} on {one['database']}:", *(f"  {line}" for line in told)]
    return [*lines, ""] if lines else []


def _broken(results: Iterable[dict[str, Any]]) -> list[str]:
    lines = []
    for one in results:
        if one["verdict"] == "KEPT":
            continue
        lines.append(f"BROKEN: {one['scenario']} on {one['database']}")
        lines += [f"  {text}" for text in one["violations"][:SHOWN]]
        if len(one["violations"]) > SHOWN:
            lines.append(f"  and {len(one['violations']) - SHOWN} more")
        lines += [f"  | {line}" for line in one["trouble"].splitlines()[-6:]]
    return [*lines, ""] if lines else []


def _verdict(document: dict[str, Any]) -> str:
    totals = document["totals"]
    if not document["results"]:
        return "none; nothing was run to its end"
    if document["verdict"] == "KEPT":
        return f"KEPT. {totals['faults']:,d} faults, {totals['tasks']:,d} tasks: 0 lost, 0 doubled."
    return f"BROKEN. {totals['lost']} lost, {totals['doubled']} doubled; see above."


def listing(scenarios: Iterable[Scenario]) -> str:
    """Return the list of what there is to run."""
    lines = []
    for one in scenarios:
        number = f"{one.number:2d}" if one.number else "  "
        lines.append(f"{number}  {one.name:20s} {one.title}\n    {'':20s} on {', '.join(sorted(one.databases))}")
    return "\n".join(lines)
