# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the bytes of a list to the verdict, the data passes at most twelve files, so that a reader can follow it.

The data has six forms: the bytes of a page, the objects of the lists, the snapshot, the eligible nodes of a workload, its
distributions over domains, and its verdicts. A file of ``module_utils`` is on the path if, in a check of the cluster below, one of its
functions returns or yields one of these forms, alone or in a list, or makes a snapshot. An object of a list counts by its uid, and only
until the snapshot exists: a function that returns some pods later answers a question about the snapshot.

A file is not on the path if its functions return something else: a refusal, a condition, a name, a part of an object, or the pod that a
workload would get next. ``HANDS_ON`` are the files that return the bytes of a page only as they got them from another file; a reader can
skip them, and the test checks that this is true.

The test traces the real calls of a check in all threads, from the request to the transport until the report is complete. The cluster has a
healthy, a collapsed and a skewed workload. docs/development/architecture.md has the same list.
"""

from __future__ import annotations

import json
import sys
import threading
import typing as t
from collections.abc import Iterator
from types import FrameType

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.http.transport import Body
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.check.run import run_check
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.distribution import Distribution
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.eligible_nodes import Eligible
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.verdict import Verdict

from tests.unit.support.cluster import ClusterBuilder
from tools.paths import ROOT

MAX_FILES = 12
HANDS_ON = {"kube/client/pagination.py"}
RESULT_FORMS = (ClusterSnapshot, Eligible, Distribution, Verdict)
Object = dict[str, t.Any]


def cluster() -> dict[str, list[Object]]:
    """The objects by the plural of their kind. Each of them has a uid."""
    built = ClusterBuilder()
    for name in ("a", "b", "c"):
        built.node(name)
    built.deployment("even", ["a", "b", "c"])
    built.deployment("collapsed", ["a", "a", "a"])
    built.deployment("skewed", ["a", "a", "a", "b"])
    structs: dict[str, list[t.Any]] = {
        "nodes": built.nodes,
        "namespaces": built.namespaces,
        "deployments": built.deployments,
        "replicasets": built.replica_sets,
        "pods": built.pods,
    }
    lists = {plural: [json.loads(encode_json(item)) for item in items] for plural, items in structs.items()}
    for plural, items in lists.items():
        for item in items:
            item["metadata"]["uid"] = item["metadata"].get("uid") or f"{plural}-{item['metadata']['name']}"
    return lists


class Lists:
    """A transport that answers each list with pages of ``size`` objects. ``bodies`` are the answers."""

    server, server_time_s, server_version = "https://test", None, ""

    def __init__(self, size: int) -> None:
        self._size = size
        self._lists = cluster()
        self.uids = {item["metadata"]["uid"] for items in self._lists.values() for item in items}
        self.bodies: list[Body] = []

    def request(self, _method: str, path: str, *, query: t.Any, on_start: t.Any = None, **_how: t.Any) -> Body:
        start = int(dict(query).get("continue", "0"))
        items = self._lists.get(path.rsplit("/", 1)[1], [])
        end = start + self._size
        meta = {"resourceVersion": "5", "continue": str(end) if end < len(items) else ""}
        data = json.dumps({"kind": "List", "apiVersion": "v1", "metadata": meta, "items": items[start:end]}).encode()
        if on_start is not None:
            on_start(data)
        self.bodies.append(Body(data, packed=False, server=self.server))
        return self.bodies[-1]


class Path:
    """The files whose functions return a form of the data. ``skipped`` are those that only pass on the bytes of a page."""

    def __init__(self, lists: Lists) -> None:
        self._lists = lists
        self._has_snapshot = False
        self._returned_by: dict[int, str] = {}
        self._made: set[str] = set()
        self._handed_on: set[str] = set()

    @property
    def files(self) -> set[str]:
        return self._made | self._handed_on

    @property
    def skipped(self) -> set[str]:
        return self._handed_on - self._made

    def note(self, frame: FrameType, event: str, value: t.Any) -> None:
        """Note a return, as a function for ``sys.setprofile``."""
        _folder, found, file = frame.f_code.co_filename.partition("/module_utils/")
        if event != "return" or not found:
            return
        if frame.f_code.co_name == "__init__" and isinstance(frame.f_locals["self"], RESULT_FORMS):
            self._has_snapshot = True
            self._made.add(file)
        elif any(value is body for body in self._lists.bodies):
            maker = self._returned_by.setdefault(id(value), file)
            (self._made if maker == file else self._handed_on).add(file)
        elif self._is_form(value):
            self._made.add(file)

    def _is_form(self, value: t.Any) -> bool:
        if isinstance(value, RESULT_FORMS) or (isinstance(value, bytes) and any(value == body.data for body in self._lists.bodies)):
            return True
        if not self._has_snapshot and getattr(getattr(value, "metadata", None), "uid", None) in self._lists.uids:
            return True
        return isinstance(value, (list, tuple)) and any(map(self._is_form, value))


@pytest.fixture(params=[1000, 1], ids=["lists of one page", "lists of several pages"])
def path(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The path of a check. An earlier check has made the imports and filled the caches of the process."""
    options = CheckOptions(predict=False, max_skew=1)
    run_check(KubeApi(t.cast(t.Any, Lists(1000))), options)
    lists = Lists(request.param)
    found = Path(lists)
    threading.setprofile(found.note)
    sys.setprofile(found.note)
    try:
        _snapshot, report = run_check(KubeApi(t.cast(t.Any, lists), page_size=request.param), options)
    finally:
        sys.setprofile(None)
        threading.setprofile(t.cast(t.Any, None))
    assert {one.workload.metadata.name: one.verdict.verdict for one in report.workloads} == {
        "even": "healthy",
        "collapsed": "collapsed",
        "skewed": "skewed",
    }
    yield found


def test_the_data_passes_at_most_twelve_files_from_the_bytes_to_the_verdict(path: Path) -> None:
    assert path.skipped <= HANDS_ON, "these files are not listed as files that hand a page on"
    assert len(path.files - HANDS_ON) <= MAX_FILES, sorted(path.files)


def test_the_document_lists_the_files_of_the_path(path: Path) -> None:
    text = (ROOT / "docs/development/architecture.md").read_text(encoding="utf-8")
    section = text.split("\n## Data flow of a check\n")[1].split("\n## ")[0]
    assert sorted(file for file in path.files if f"`{file}`" not in section) == []
