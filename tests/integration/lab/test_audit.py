# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The audit log tells who asked for what, and counts each request once."""

from __future__ import annotations

import subprocess
from functools import partial

from lab.api import USER_AGENT
from lab.audit import COMPLETE, STARTED
from lab.cluster import Cluster


def test_requests_since_a_mark_are_found_by_agent_verb_and_resource(lab_cluster: Cluster) -> None:
    audit, api = lab_cluster.audit(), lab_cluster.api
    mark = audit.mark()
    api.get("/api/v1/nodes")
    api.get("/api/v1/nodes/worker-1")
    api.request("GET", "/api/v1/namespaces/kube-system/configmaps/absent")
    mine = list(audit.events(since=mark, user_agent=USER_AGENT))
    assert [(event.verb, event.resource, event.name, event.code) for event in mine] == [
        ("list", "nodes", "", 200),
        ("get", "nodes", "worker-1", 200),
        ("get", "configmaps", "absent", 404),
    ]
    assert len(list(audit.events(since=mark, user_agent=USER_AGENT, verb="get", resource="nodes"))) == 1


def test_a_watch_counts_once_and_can_be_seen_while_it_is_open(lab_cluster: Cluster) -> None:
    audit = lab_cluster.audit()
    mark = audit.mark()
    lab_cluster.api.request("GET", "/api/v1/nodes?watch=true&timeoutSeconds=1&resourceVersion=0")
    watches = partial(audit.events, since=mark, user_agent=USER_AGENT, verb="watch")
    assert [event.stage for event in watches()] == [COMPLETE]
    assert [event.stage for event in watches(stages=(STARTED,))] == [STARTED]


def test_service_account_is_subject_to_rbac(lab_cluster: Cluster) -> None:
    mark = lab_cluster.audit().mark()
    kubeconfig = lab_cluster.service_account("nobody", cluster_role=None)
    kubectl = [str(lab_cluster.binary("kubectl")), "--kubeconfig", str(kubeconfig), "get", "--raw", "/api/v1/nodes"]
    answer = subprocess.run(kubectl, capture_output=True, text=True, check=False)
    assert answer.returncode == 1
    assert "forbidden" in answer.stderr.lower()
    requests = lab_cluster.audit().events(since=mark, user="system:serviceaccount:default:nobody")
    assert [event.code for event in requests] == [403]
