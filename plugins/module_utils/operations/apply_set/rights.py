# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rights that a program gets, as objects, and the rights that the user of a playbook needs, as questions to the API server."""

from __future__ import annotations

import itertools
import typing as t
from collections.abc import Iterator, Mapping, Sequence

from .objects import Json

GROUP = "rbac.authorization.k8s.io"
RIGHTS_KINDS = ("v1/ServiceAccount", *(f"{GROUP}/v1/{kind}" for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")))
"""A set may have all of these, also if its present rights need only some. If a user gets the rights, it has not the first one."""


def permission_objects(name: str, namespace: str, permissions: Sequence[Mapping[str, t.Any]], user: str) -> Iterator[Json]:
    """Yield the service account and its roles, or only the roles if a user gets the rights.

    A right with a namespace is in a Role there, and another one in the ClusterRole. Without a right of the whole cluster there is none.
    """
    subject: Json = {"apiGroup": GROUP, "kind": "User", "name": user}
    if not user:
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        metadata = {"name": name, "namespace": namespace}
        # Only the pods of the program get the token.
        yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "automountServiceAccountToken": False}
    # A namespace can be a number in YAML.
    places = [str(entry["namespace"]) if "namespace" in entry else "" for entry in permissions]
    for place in sorted(set(places)):
        rules = [_rule(entry) for entry, where in zip(permissions, places) if where == place]
        kind = "Role" if place else "ClusterRole"
        metadata = {"name": name, **({"namespace": place} if place else {})}
        yield {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "rules": rules}
        reference = {"apiGroup": GROUP, "kind": kind, "name": name}
        binding = {"apiVersion": f"{GROUP}/v1", "kind": f"{kind}Binding", "metadata": dict(metadata)}
        yield {**binding, "roleRef": reference, "subjects": [dict(subject)]}


def _rule(entry: Mapping[str, t.Any]) -> Json:
    rule = {"apiGroups": [entry["api_group"]], "resources": list(entry["resources"]), "verbs": list(entry["verbs"])}
    return {**rule, "resourceNames": list(entry["names"])} if "names" in entry else rule


def questions(rights: Sequence[Mapping[str, t.Any]], without_verbs: t.Collection[str]) -> Iterator[Json]:
    """Yield the attributes of one review for each right that is asked."""
    for right in rights:
        if not right.get("asked", True):
            continue
        # A list without a namespace is of a run that needs the right nowhere.
        verbs = [verb for verb in right["verbs"] if verb not in without_verbs]
        asked = itertools.product(right["resources"], right.get("namespaces", [""]), right.get("names", [""]), verbs)
        for resource, namespace, name, verb in asked:
            yield {"group": right["group"], "resource": resource, "verb": verb, "namespace": str(namespace), "name": name}


def missing_right(asked: Json) -> str:
    """Return the sentence for a right that the user does not have."""
    group = f".{asked['group']}" if asked["group"] else ""
    name = f" named {asked['name']}" if asked["name"] else ""
    place = f" in namespace {asked['namespace']}" if asked["namespace"] else ""
    return f"the user may not {asked['verb']} {asked['resource']}{group}{name}{place}: grant the verb"
