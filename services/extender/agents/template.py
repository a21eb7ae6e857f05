# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The agent ``template``: the smallest agent, as a model for others. It accepts all nodes and gives them the same score.

The original system has it by the name foo. See docs/add-an-agent.md.
"""

from __future__ import annotations

import typing as t

from ....plugins.module_utils.model.codec import Struct
from ...common.kinds import number
from ..interface import Agent, Judgement, NodeView, PodView


class TemplateArgs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``score``: the score of each node, 0 to 10."""

    score: t.Annotated[float, number(0, 10)] = 1.0


class Template(Agent):
    """Gives each node the same score."""

    name = "template"
    args_type = TemplateArgs

    def judge(self, prepared: t.Any, node: NodeView, pod: PodView | None, now_s: float) -> Judgement:
        """Return the configured score."""
        return Judgement(self.args.score, explanation=f"{node.name} has the score of all nodes")
