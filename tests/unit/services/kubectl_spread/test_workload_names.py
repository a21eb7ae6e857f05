# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workloads that arguments of kubectl spread name, and the errors about those that do not exist."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.services.kubectl_spread.flags import UsageError
from ansible_collections.onprem.kube_scheduling.services.kubectl_spread.workload_names import missing_workloads, named_workloads

from tests.unit.support.cluster import workers

WEB, API, DB = ("Deployment", "web"), ("Deployment", "api"), ("StatefulSet", "db")


@pytest.mark.parametrize(
    ("arguments", "kinds", "names"),
    [
        ([], (), ()),
        (["deploy"], ("Deployment",), ()),
        (["deploy,sts"], ("Deployment", "StatefulSet"), ()),
        (["deployment", "web"], ("Deployment",), (WEB,)),
        (["deployments", "web", "api"], ("Deployment",), (WEB, API)),
        (["deployments.apps", "web"], ("Deployment",), (WEB,)),
        (["deployment.v1.apps/web"], ("Deployment",), (WEB,)),
        (["deploy/web", "sts/db", "Deployment/web"], ("Deployment", "StatefulSet"), (WEB, DB)),
        (["deploy,sts", "db"], ("Deployment", "StatefulSet"), (("Deployment", "db"), DB)),
    ],
)
def test_workloads_are_named_as_in_kubectl(arguments: list[str], kinds: tuple[str, ...], names: tuple[tuple[str, str], ...]) -> None:
    assert named_workloads(arguments) == (kinds, names)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["web"], "'web' is not a kind .*; use one of Deployment, StatefulSet"),
        (["deploys/web"], "'deploys' is not a kind .*; the nearest is deploy; "),
        (["daemonset", "proxy"], "'daemonset' is not a kind"),
        (["deploy/"], "'deploy/' is not KIND/NAME, such as deploy/web"),
        (["/web"], "'/web' is not KIND/NAME"),
        (["deploy/shop/web"], "'deploy/shop/web' is not KIND/NAME"),
        (["deploy/web", "api"], "'api' is not KIND/NAME"),
        (["deploy", ""], "a name is empty"),
    ],
)
def test_an_argument_in_another_form_is_refused(arguments: list[str], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        named_workloads(arguments)


def test_only_workloads_that_do_not_exist_in_the_namespaces_are_missing() -> None:
    cluster = workers(2)
    cluster.namespace("platform")
    cluster.deployment("web", ["worker-1"])
    cluster.deployment("other", ["worker-1"], metadata={"namespace": "platform"})
    cluster.stateful_set("db", ["worker-2"])
    snapshot, options = cluster.snapshot(), CheckOptions(namespaces=("app",))
    assert missing_workloads(snapshot, options, [WEB, DB]) == []
    assert missing_workloads(snapshot, options, [("Deployment", "wep"), ("Deployment", "db"), ("Deployment", "other")]) == [
        "there is no Deployment wep in app; the nearest is web",
        "there is no Deployment db in app",
        "there is no Deployment other in app",
    ]
