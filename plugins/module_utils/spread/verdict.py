# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The verdict on the distribution of replicas: collapsed, skewed, healthy or unknown."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Sequence

from ..model.messages import pluralize
from ..model.reason import Reason
from .distribution import Distribution
from .topology.missing_domain import NO_DOMAIN_CODE

HEALTHY = "healthy"
COLLAPSED = "collapsed"
SKEWED = "skewed"
ROLLING = "rolling"
SKIPPED = "skipped"
UNKNOWN = "unknown"

SPREAD = "spread"
"""The code of the reason of a workload that is healthy and has more than one eligible domain."""
SINGLE_DOMAIN = "single_domain"
"""The code of the reason of a workload that is healthy because it has no other eligible domain."""

# The verdict of a workload is the worst over its topology keys.
_SEVERITY = {COLLAPSED: 3, SKEWED: 2, UNKNOWN: 1, HEALTHY: 0}


class Verdict(t.NamedTuple):
    """A verdict and its reason. ``topology_key`` is the key that decided it."""

    verdict: str
    reason: Reason
    topology_key: str = ""


def worst_verdict(distributions: Iterable[Distribution], *, max_skew: t.Optional[int]) -> Verdict:
    """Return the worst verdict over the topology keys.

    Of equal verdicts, the key listed first decides. A healthy key with only one domain decides only if there is no other healthy key.
    """
    verdicts = [_verdict_for_key(distribution, max_skew) for distribution in distributions]
    return max(verdicts, key=lambda verdict: (_SEVERITY[verdict.verdict], verdict.reason.code == SPREAD))


def is_well_spread(distributions: Sequence[Distribution], *, max_skew: t.Optional[int]) -> bool:
    """Return whether the workload is healthy and has more than one eligible domain."""
    return worst_verdict(distributions, max_skew=max_skew).reason.code == SPREAD


def _verdict_for_key(distribution: Distribution, max_skew: t.Optional[int]) -> Verdict:
    key, domains = distribution.topology_key, len(distribution.domains)
    if not domains:
        return Verdict(UNKNOWN, Reason(NO_DOMAIN_CODE, f"no eligible node has the label {key}"), key)
    if distribution.without_domain:
        verb = "is" if distribution.without_domain == 1 else "are"
        text = f"{pluralize(distribution.without_domain, 'replica')} {verb} in no domain of {key}"
        return Verdict(UNKNOWN, Reason(NO_DOMAIN_CODE, text), key)
    if domains < 2:
        return Verdict(HEALTHY, Reason(SINGLE_DOMAIN, f"only one domain of {key} has eligible nodes"), key)
    if distribution.is_collapsed:
        (domain,) = distribution.placed
        text = f"all {distribution.replicas} placed replicas in {key}={domain}, {domains} domains are eligible"
        return Verdict(COLLAPSED, Reason("collapsed", text), key)
    if max_skew is not None and distribution.skew > max_skew:
        text = f"{distribution.most} to {distribution.fewest} replicas over {key}, max_skew is {max_skew}"
        return Verdict(SKEWED, Reason("skewed", text), key)
    text = f"not collapsed over {key}" if max_skew is None else f"even over {key}, max_skew is {max_skew}"
    return Verdict(HEALTHY, Reason(SPREAD, text), key)
