# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The files that the calls of a pending pod pass, from ``reconcile`` to the request of its eviction: at most 15.

The calls of a scene are traced. A file of ``rescue/`` or ``operations/rescue/`` is on the path

- if one of its functions passes the rescue on: it calls a function of another file of these two folders, and one of the arguments is the
  pod or a pod of a node, the task, the plan, a candidate node, a set of victims or the hold; or
- if one of its functions sends a write for the rescue to the API server, also as a dry run.

A file that is only asked is not on the path: its function gets the pod and answers by itself. Its name says the question, for example
``hold_policy`` and ``rescheduling``. A reader opens it for the answer, not to find the next step. The answer can come from other folders of
module_utils. They know nothing of rescues and are not counted: ``scheduler``, ``model``, ``state``, ``kube`` and ``operations/common``.

Two folders are left out. ``rescue/eviction_rules`` has one question for each file, and the files share small functions. Only the file that
asks all these questions counts. ``operations/rescue/records`` has what is kept in the ConfigMap. No step of a rescue begins there.

``docs/development/architecture.md`` lists the path.
"""

from __future__ import annotations

import re
import sys
import threading
import typing as t
from types import CodeType, FrameType

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.task import RescueTask
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan import Choice, RescuePlan, Victim
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.search.node_candidate import NodeCandidate
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.search.shortage import PodDemand
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.search.subset_search import VictimSet
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.victims.node_pod import NodePod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.hold import Hold, HoldRecord

from tests.unit.support.fakes import Cluster, Scene, node, pod, scene
from tools.paths import ROOT

MAX_FILES = 15
ARCHITECTURE = ROOT / "docs" / "development" / "architecture.md"
HEADING = "### Path of a pod through the files"

MODULE_UTILS = "/plugins/module_utils/"
FOLDERS = ("rescue/", "operations/rescue/")
LEFT_OUT = ("rescue/eviction_rules/", "operations/rescue/records/")
ALL_RULES = "rescue/eviction_rules/eviction_filter.py"
RESCUE = (Pod, RescueTask, RescuePlan, Choice, Victim, NodePod, NodeCandidate, VictimSet, PodDemand, Hold, HoldRecord)
"""The types of a rescue: an argument of one of them makes a call a part of the path."""
WRITES = {function.__code__ for function in (Cluster.evict, Cluster.json_patch, Cluster.merge_patch)}


class Path:
    """Traces calls. ``files``: the files on the path, in the order in which the calls reach them."""

    def __init__(self) -> None:
        self.files: list[str] = []

    def on_event(self, frame: FrameType, event: str, _argument: t.Any) -> None:
        """Handle one event of ``sys.setprofile``."""
        caller = _caller(frame)
        if event != "call" or caller is None:
            return
        target = _file_of(frame.f_code)
        is_passed_on = target is not None and target != caller and any(map(_is_of_the_rescue, _arguments(frame)))
        if (is_passed_on or frame.f_code in WRITES) and caller not in self.files:
            self.files.append(caller)


def _caller(frame: FrameType) -> str | None:
    """The file of the rescue that makes the call, also through functions of other folders and of the library."""
    while frame.f_back is not None:
        frame = frame.f_back
        found = _file_of(frame.f_code)
        if found is not None:
            return found
    return None


def _file_of(code: CodeType) -> str | None:
    """The file in module_utils if it is one of the rescue, otherwise None."""
    found = code.co_filename.partition(MODULE_UTILS)[2]
    return found if found == ALL_RULES or (found.startswith(FOLDERS) and not found.startswith(LEFT_OUT)) else None


def _arguments(frame: FrameType) -> list[t.Any]:
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    return [frame.f_locals[name] for name in code.co_varnames[:count] if name in frame.f_locals]


def _is_of_the_rescue(value: t.Any) -> bool:
    """Also a list of pods, for example. A structure that has a pod among other things is not passed for the pod."""
    if isinstance(value, list) or (isinstance(value, tuple) and not hasattr(value, "_fields")):
        return any(isinstance(one, RESCUE) for one in value)
    return isinstance(value, RESCUE)


def pending_pod() -> Scene:
    """A pod for which two of three pods of a node must be evicted. The other node has no pod that may be evicted."""
    victims = [pod(name, "300m", on="n") for name in ("v1", "v2", "v3")]
    return scene([node("n"), node("m")], [*victims, pod("high", "900m", on="m", priority=2_100_000_000), pod("dns", "600m")])


def traced_path() -> list[str]:
    """The files on the path until the first eviction is sent."""
    _reconcile(pending_pod())  # what is imported and cached by the first use is no part of the path
    on, path = pending_pod(), Path()
    before = sys.getprofile()
    threading.setprofile(path.on_event)  # evictions are sent by a thread of their own
    sys.setprofile(path.on_event)
    try:
        _reconcile(on)
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    assert on.cluster.evicted and on.cluster.held == ["n"], "the scene reaches an eviction"
    return path.files


def _reconcile(on: Scene) -> None:
    for _call in range(5):
        on.controller.reconcile()
        if on.cluster.evicted:
            return


def documented_path() -> list[str]:
    """The files in the list of the documentation."""
    section = ARCHITECTURE.read_text().partition(f"{HEADING}\n")[2].partition("\n#")[0]
    return re.findall(r"^\d+\. `([^`]+)`", section, re.MULTILINE)


def test_a_pending_pod_passes_at_most_15_files_and_the_documentation_lists_them() -> None:
    passed = traced_path()
    assert len(passed) <= MAX_FILES, passed
    assert sorted(documented_path()) == sorted(passed), (
        f"{ARCHITECTURE.name}, {HEADING!r}: the files in the order of the calls are {passed}"
    )


def test_a_file_that_passes_the_pod_on_is_found() -> None:
    passed = traced_path()
    assert passed[0] == "operations/rescue/controller.py" and "rescue/planner.py" in passed
    assert "operations/rescue/eviction_requests.py" in passed, "it sends the eviction"
    assert "rescue/hold_policy.py" not in passed, "it is only asked"
