# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/development/placement.md, out of the results of all runs."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench.estimate import CONFIDENCE, Estimate, difference, estimate
from tests.bench.page import machine, table
from tests.soak.placement import workload
from tests.soak.placement.cluster import SCRAPE_S, START_S
from tests.soak.placement.contenders import WINDOW_S, ExactKnowledge, RiskBalancing
from tests.soak.placement.own_extender import OWN, OwnExtender, OwnExtenderWithFreeShare, OwnExtenderWithLongWindow
from tests.soak.placement.simulation import CYCLE_S, WATCH_S, WEIGHT, Outcome

PAGE = Path(__file__).resolve().parents[3] / "docs" / "development" / "placement.md"

LINE = 140
"""The most characters of a line of text on the page."""

Results = Mapping[str, Mapping[str, Sequence[Outcome]]]
"""The outcomes by pattern and contender, in the order of the seeds."""

METHOD = """<!--
SPDX-License-Identifier: GPL-3.0-or-later
Copyright: onprem.kube_scheduling contributors
-->
# Placement

`make soak` simulates placements in virtual time and writes this page. `python -m tests.soak.placement` does it alone.

## Method

{nodes} nodes with a link of 10 Gbit/s each get {pods} pods. A pod brings traffic: the means of the pods have a lognormal distribution with
a median of {median:.0f} Mbit/s, and pods of one Deployment have similar traffic. The pods come as Deployments of {replicas} replicas, one
each {gap:.0f} s on average. In the middle comes one Deployment of {burst} replicas, the *burst*. The scheduler places {pods_per_s:.0f} pods
each second. The nodes run {least_others} to {most_others} other pods each, which together use {least:.0%} to {most:.0%} of the link. For
one seed all contenders place the same pods.

- *steady*: each pod has its mean traffic all the time.
- *bursty*: each pod has no traffic for {off:.0f} s on average, and then {factor:.0f} times its mean for {on:.0f} s on average.
- *one hot node*: as steady, and the other pods of one node use {hot:.0%} of its link.

Utilisation is the traffic for a node as a share of the speed of its link, as a mean over {measured} s after all pods have started. It may
be above 100 %, which a link cannot carry. *Variation* is the coefficient of variation over the nodes (standard deviation / mean), *maximum*
is the node with the highest utilisation, and *herding* is the largest share of the burst on one node. The figures are means with the
{confidence:.0%} confidence interval over the seeds. *Above this extender* is the mean difference of the maximum from that of this extender
for the same seed.

**The scheduler.** A pod goes to the node with the most points. All contenders have the points of the stock plugins NodeResourcesFit,
NodeResourcesBalancedAllocation and PodTopologySpread (with its default constraints), and add their own with the weight {weight}. The stock
plugins are a model, which `tests/integration/extender/test_placement_model.py` compares with kube-scheduler. All other plugins give each
node the same points here. A node without free CPU, memory or pods is filtered.

**The values.** A scrape each {scrape} s reads the counters of the nodes, and all contenders see the rate over {window} minutes. Traffic
begins {start} s after the binding. Contenders that watch pods see a binding after {watch:g} s. A small server answers the queries of this
extender as Prometheus does; `tests/integration/extender/test_virtual_prometheus.py` compares its answers with those of a real Prometheus.

**The contenders.** An extender gives integers from 0 to 10. A plugin gives integers from 0 to 100, but needs a scheduler binary of its own.
The formulas of others are therefore measured in both forms.

- *this extender* is its own code with its defaults, from the HTTP answers of Prometheus to the answer for the scheduler. Its values are up
  to {refresh} s old. No pod declares its bandwidth. Its other rows change one thing: each pod has the annotation
  `kubernetes.io/ingress-bandwidth` with the most that it receives; the rate is that over 15 minutes; or the score is 0 at a utilisation of
  100 % and not of 50 %.
- *the original plugin* is NetworkTraffic (cylonchau/customScheduler): 100 − value · 100 / maximum. Its value is the sum of the samples of a
  counter over one hour, which grows with the uptime of the node (here 1 to 60 days). It asks Prometheus for each pod. *With rates*: the
  value is the rate instead. No published system does this; it shows how good the formula can be.
- *Trimaran LoadVariationRiskBalancing* is the plugin of kubernetes-sigs/scheduler-plugins that balances nodes, with the network in place of
  CPU and memory. TargetLoadPacking of the same project packs pods up to a utilisation of 40 %, so it shows another aim. Both read their
  values each {others_refresh} s.
- *exact knowledge* knows the mean traffic of all pods that are bound. Nothing can measure this. It shows how much of the maximum no score
  for the present traffic can avoid, because the traffic of the next pod is not known.
"""
FIGURES = {
    "nodes": workload.NODES,
    "pods": workload.PODS,
    "median": workload.MEDIAN_TRAFFIC / workload.MBIT_S,
    "replicas": workload.REPLICAS,
    "gap": workload.GAP_S,
    "burst": workload.BURST,
    "pods_per_s": 1 / CYCLE_S,
    "least_others": workload.OTHERS[0],
    "most_others": workload.OTHERS[1] - 1,
    "least": workload.BACKGROUND[0],
    "most": workload.BACKGROUND[1],
    "off": workload.OFF_S,
    "on": workload.ON_S,
    "factor": (workload.ON_S + workload.OFF_S) / workload.ON_S,
    "hot": workload.HOT_BACKGROUND,
    "most_pod": workload.MOST_TRAFFIC / workload.SPEED,
    "bursts": WINDOW_S / (workload.ON_S + workload.OFF_S),
    "noise": workload.burst_deviation(WINDOW_S),
    "measured": workload.MEASURED_S,
    "confidence": CONFIDENCE,
    "weight": WEIGHT,
    "scrape": SCRAPE_S,
    "window": WINDOW_S // 60,
    "start": START_S,
    "watch": WATCH_S,
    "refresh": OwnExtender.refresh_s,
    "others_refresh": RiskBalancing.refresh_s,
}
"""The numbers of the method, by their names in the text."""


def page(results: Results) -> str:
    """Return the whole page."""
    seeds = len(next(iter(next(iter(results.values())).values())))
    parts = [METHOD.format(**FIGURES).rstrip(), "## Results", f"{machine()} {seeds} seeds."]
    parts += ["### Goals", GOAL, _goals(results), _limits(results, seeds)]
    for pattern, outcomes in results.items():
        parts += [f"### {pattern[0].upper()}{pattern[1:]}", _figures(outcomes)]
    return "\n\n".join(parts) + "\n"


GOAL = """This extender shall have the lowest maximum of all contenders in each pattern. The cells have the mean difference of the maximum
from that of this extender, in percentage points of utilisation. *Met* and *missed*: the whole confidence interval is above 0, or below 0.
*Even*: it contains 0."""


def _goals(results: Results) -> str:
    no_rivals = (*(kind.name for kind in OWN), ExactKnowledge.name)
    others = [name for name in next(iter(results.values())) if name not in no_rivals]
    rows = [[name, *(_verdict(_above(outcomes, name)) for outcomes in results.values())] for name in others]
    return table(["lower maximum than", *results], rows)


LIMITS = """**The limits of the goal.** Exact knowledge changes the maximum of this extender by {exact} percentage points. No score that is
made of the present traffic can be much better. The next pods make the rest of the maximum: the mean traffic of one pod is up to
{most_pod:.0%} of a link, and nobody knows it before the pod runs. The differences between good formulas are therefore small, and {seeds}
seeds do not show all of them.

In *bursty* the values are the limit. A pod sends about {bursts:.0f} times in {window} minutes, so that its rate has a standard deviation
of {noise:.0%} of its mean. All contenders but exact knowledge have this noise. With a rate over 15 minutes the maximum of this extender
changes by {long} points. The default is nevertheless 5 minutes: here the mean traffic of a pod never changes, and in a cluster a longer
window shows a change later.

*The integers.* With `worst_utilisation: 1` they cover utilisations up to 100 %, and the maximum changes by {free} points."""


def _limits(results: Results, seeds: int) -> str:
    texts = {
        word: ", ".join(f"{_signed(_above(outcomes, name))} ({pattern})" for pattern, outcomes in results.items())
        for word, name in (
            ("exact", ExactKnowledge.name),
            ("long", OwnExtenderWithLongWindow.name),
            ("free", OwnExtenderWithFreeShare.name),
        )
    }
    paragraphs = LIMITS.format(**FIGURES, **texts, seeds=seeds).split("\n\n")
    return "\n\n".join(textwrap.fill(" ".join(one.split()), LINE, break_on_hyphens=False) for one in paragraphs)


def _verdict(found: Estimate) -> str:
    return f"{found.verdict(0)}: {_signed(found)}"


def _figures(outcomes: Mapping[str, Sequence[Outcome]]) -> str:
    header = ["", "maximum %", "above this extender", "variation %", "herding %"]
    rows = []
    for name, found in outcomes.items():
        maxima, variations, herdings = ([getattr(one, field) for one in found] for field in ("maximum", "variation", "herding"))
        above = "" if name == OwnExtender.name else _signed(_above(outcomes, name))
        rows.append([name, _percent(estimate(maxima)), above, _percent(estimate(variations)), _percent(estimate(herdings))])
    return table(header, rows)


def _above(outcomes: Mapping[str, Sequence[Outcome]], name: str) -> Estimate:
    return difference([one.maximum for one in outcomes[OwnExtender.name]], [one.maximum for one in outcomes[name]])


def _percent(found: Estimate) -> str:
    return f"{100 * found.mean:.1f} ± {100 * found.half:.1f}"


def _signed(found: Estimate) -> str:
    return f"{100 * found.mean:+.1f} ± {100 * found.half:.1f}"
