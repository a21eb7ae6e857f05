# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""docs/development/predictions.md, out of the results of many clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.bench.page import machine, table
from tests.integration.prediction.comparison import CaseResult
from tests.integration.prediction.plans import WORKLOADS, PlanResult, PlanTally, disagreements
from tests.integration.prediction.results import FULL, KINDS, SMALL_UP_TO, Tally, by_kind, kind_of, problems
from tools.paths import ROOT

PAGE = ROOT / "docs" / "development" / "predictions.md"

TEXT = """<!--
SPDX-License-Identifier: GPL-3.0-or-later
Copyright: onprem.kube_scheduling contributors
-->
# Predictions

`make soak` predicts restarts in random clusters, makes each of them, and writes this page. `make soak PART=prediction` does it alone.

## Method

Each of {clusters} random clusters ({seeds}) has a real control plane and simulated nodes. The clusters have zones of
unequal size, unequal nodes, nodes without a label, taints, images, one to three topology keys, affinities, spread constraints, priorities,
other pods, pods that become Ready or end at different times, images of different sizes under one tag, and schedulers with other profiles.
After the check of an uneven workload it is restarted in any case, and the real kube-scheduler places the new pods. The outcome is then
compared with `restart_helps`. In half of the clusters, the next check begins while old pods of the workload before are still terminating.
{machine}

- *Right*, for the prediction true: the outcome is `improved`. For the prediction false: it is another one.
- *Exact*: the new pods are distributed over the domains exactly as `expected` says, among the workloads with such a result.

In a cluster with more than {size} nodes the scheduler scores only a part of the nodes, which nobody can know before. Clusters with full
nodes have two to six of them, all with little free capacity, and rollouts with little surge or none.

## Results

{results}

The goals: 99 % of the predictions true, and of the predictions false, are right. In clusters of up to {size} nodes, and in those with full
nodes, at most 5 % are null.

## Reasons for null

{reasons}

## Wrong predictions

{wrong}
"""


PLANS = "\n## Plans\n"
PLANS_TEXT = """
`make soak PART=plan` plans a pass in check mode on {clusters} other random clusters with {fewest} to {most} uneven workloads each, and then
makes the pass. The strategy, `max_workloads`, the topology keys and `max_skew` are drawn for each cluster.

{results}

The goals: plan and run agree in 98 % of the actions and of the messages, and at most 10 % of the actions are conditional. An action agrees
if it is the same, and if as many workloads are moved before it. A conditional action (`would_restart_if`, `would_evict_if`) agrees if it is
made and its condition is true, or is not made and its condition is not true. Replicas do not show whether some conditions are true, such as
conditions about budgets. The action then agrees in both cases.

Most of the other messages name another node that the scheduler chooses. `make soak` prints all of them.

### Actions on which plan and run do not agree

{wrong}
"""


def write_plans(results: list[PlanResult], page: Path = PAGE) -> None:
    """Write the part of the page about plans."""
    tally = PlanTally(results)
    actions = len(tally.compared)
    rows = [
        ("clusters", f"{tally.cases}"),
        ("actions", f"{actions}"),
        ("plan and run agree", f"{tally.agreeing} ({tally.agreement:.1%})"),
        ("conditional", f"{tally.conditional} ({tally.conditional_share:.1%})"),
        ("conditional on what replicas do not show", f"{tally.unknown_conditions}"),
        ("made as planned: the same message", f"{tally.equal_texts} of {tally.made} ({tally.equal_text_share:.1%})"),
    ]
    fewest, most = WORKLOADS
    wrong = "\n".join(f"- {one}" for one in disagreements(results, messages=False)) or "None."
    text = PLANS_TEXT.format(clusters=tally.cases, fewest=fewest, most=most, results=table(("", "number"), rows), wrong=wrong)
    page.write_text(page.read_text(encoding="utf-8").partition(PLANS)[0] + PLANS + text, encoding="utf-8")


def write(cases: list[CaseResult], page: Path = PAGE) -> None:
    """Write the page of these results, which are in the order of their seeds. The part about plans stays."""
    text = TEXT.format(
        clusters=len(cases),
        seeds=_seeds(cases),
        machine=machine(),
        size=SMALL_UP_TO,
        results=_results(by_kind(cases)),
        reasons=_reasons(cases),
        wrong="\n".join(f"- {one}" for one in problems(cases)) or "None.",
    )
    _before, title, plans = page.read_text(encoding="utf-8").partition(PLANS) if page.exists() else ("", "", "")
    page.write_text(text + title + plans, encoding="utf-8")


def _seeds(cases: list[CaseResult]) -> str:
    full, others = ([case.seed for case in cases if (kind_of(case) == FULL) is wanted] for wanted in (True, False))
    return f"seeds {others[0]} to {others[-1]}, and with full nodes {full[0]} to {full[-1]}"


def _results(by_kind: dict[str, Tally]) -> str:
    header, tallies = ("", *by_kind), by_kind.values()
    rows = [
        ("clusters", *(f"{one.cases}" for one in tallies)),
        ("uneven workloads", *(f"{one.workloads}" for one in tallies)),
        ("predicted true: right", *(f"{one.counts[True, True]} of {_predicted(one, True)} ({one.right_true:.1%})" for one in tallies)),
        ("predicted false: right", *(f"{one.counts[False, False]} of {_predicted(one, False)} ({one.right_false:.1%})" for one in tallies)),
        ("null", *(f"{_predicted(one, None)} ({one.unknown:.1%})" for one in tallies)),
        ("exact", *(f"{one.exact} of {one.with_expected}" for one in tallies)),
    ]
    return table(header, rows)


def _predicted(tally: Tally, helps: bool | None) -> int:
    return tally.counts[helps, True] + tally.counts[helps, False]


def _reasons(cases: Iterable[CaseResult]) -> str:
    counts = Counter((reason, kind_of(case)) for case in cases for one in case.workloads if one.helps is None for reason in one.reasons)
    reasons = sorted({reason for reason, _kind in counts})
    return table(("workloads", *KINDS), [(f"`{reason}`", *(str(counts[reason, kind]) for kind in KINDS)) for reason in reasons])
