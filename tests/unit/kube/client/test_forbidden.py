# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The error of a forbidden request names the missing permission with the fields of a role."""

from __future__ import annotations

import re
import typing as t
from types import SimpleNamespace

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ForbiddenError, RequestTarget, api_error
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import (
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    STORAGE_CLASSES,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.messages import role_documentation


def refuse(_method: str, _path: str, *, verb: str, target: RequestTarget, **_rest: t.Any) -> bytes:
    raise api_error(verb=verb, target=target, status=403, message="no")


API = KubeApi(t.cast(t.Any, SimpleNamespace(request=refuse)))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: API.list_all(NODES), "cannot list nodes: no (HTTP 403). Grant the verb 'list' on nodes to this user."),
        (
            lambda: API.list_all(STORAGE_CLASSES),
            "cannot list storageclasses: no (HTTP 403). Grant the verb 'list' on storageclasses to this user.",
        ),
        (
            lambda: API.evict("shop", "web-0", uid="u"),
            "cannot create an eviction of Pod shop/web-0: no (HTTP 403). "
            "Grant the verb 'create' on pods/eviction in namespace shop to this user.",
        ),
        (
            lambda: API.list_all(PODS),
            "cannot list pods in all namespaces: no (HTTP 403). Grant the verb 'list' on pods in all namespaces to this user.",
        ),
        (
            lambda: API.list_all(PODS, namespace="shop"),
            "cannot list pods in namespace shop: no (HTTP 403). "
            "Grant the verb 'list' on pods in namespace shop to this user, or leave the namespace out.",
        ),
        (
            lambda: API.get(NAMESPACES, "", "shop"),
            "cannot get Namespace shop: no (HTTP 403). Grant the verb 'get' on namespaces to this user.",
        ),
        (
            lambda: API.merge_patch(DEPLOYMENTS, "shop", "web", {}),
            "cannot patch Deployment shop/web: no (HTTP 403). Grant the verb 'patch' on deployments in namespace shop to this user.",
        ),
        (
            lambda: API.create_event("shop", {}),
            "cannot create events in namespace shop: no (HTTP 403). Grant the verb 'create' on events in namespace shop to this user.",
        ),
    ],
)
def test_a_forbidden_request_says_what_to_grant(call: t.Callable[[], t.Any], said: str) -> None:
    with pytest.raises(ForbiddenError) as caught:
        call()
    assert str(caught.value) == f"{said} {role_documentation()}"


@pytest.mark.parametrize(
    ("user_agent", "page"),
    [
        ("onprem.kube_scheduling/kubectl-spread", "docs/rebalance.html#permissions"),
        ("onprem.kube_scheduling/k8s_rollout_restart", "docs/rebalance.html#permissions"),
        ("onprem.kube_scheduling/k8s_critical_rescue", "docs/rescue.html#permissions"),
        ("onprem.kube_scheduling/rescuer", "docs/rescuer.html#rights-of-the-role"),
        ("onprem.kube_scheduling/extender", "docs/network-aware-scheduling.html#permissions"),
    ],
)
def test_a_forbidden_request_names_the_published_page_with_the_role_of_the_program(user_agent: str, page: str) -> None:
    error = api_error(verb="list", target=RequestTarget("nodes"), status=403, message="no", user_agent=user_agent)
    assert re.findall(r"https://\S+", str(error)) == [f"https://onprem.github.io/kube_scheduling/{page}"]


def test_error_for_users_without_credentials_does_not_ask_for_a_role() -> None:
    """An API server uses this name for each client with unknown credentials, such as a user name with a password."""
    said = 'nodes is forbidden: User "system:anonymous" cannot list resource "nodes" in API group "" at the cluster scope'
    error = api_error(verb="list", target=RequestTarget("nodes"), status=403, message=said)
    assert str(error).startswith(f"cannot list nodes: {said} (HTTP 403). ")
    assert "found no credentials" in str(error) and "Grant" not in str(error) and isinstance(error, ForbiddenError) and error.lacks_role
