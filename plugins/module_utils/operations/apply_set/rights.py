# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rights that a program gets, as objects, and the rights that the user of a playbook does not have."""

from __future__ import annotations

import itertools
import typing as t
from collections.abc import Iterator, Mapping, Sequence

from .cluster import ObjectsApi
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
    rules: dict[str, list[Json]] = {}
    for entry in permissions:
        rule = {"apiGroups": [entry["api_group"]], "resources": list(entry["resources"]), "verbs": list(entry["verbs"])}
        names = {"resourceNames": list(entry["names"])} if "names" in entry else {}
        # A namespace can be a number in YAML.
        rules.setdefault(str(entry.get("namespace", "")), []).append({**rule, **names})
    for place in sorted(rules):
        kind = "Role" if place else "ClusterRole"
        metadata = {"name": name, **({"namespace": place} if place else {})}
        yield {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "rules": rules[place]}
        reference = {"apiGroup": GROUP, "kind": kind, "name": name}
        binding = {"apiVersion": f"{GROUP}/v1", "kind": f"{kind}Binding", "metadata": dict(metadata)}
        yield {**binding, "roleRef": reference, "subjects": [dict(subject)]}


def missing_rights(api: ObjectsApi, rights: Sequence[Mapping[str, t.Any]], unneeded_verbs: t.Collection[str]) -> Iterator[str]:
    """Ask the API server for each right, and yield a sentence for each one that the user does not have."""
    for right in rights:
        needed = [verb for verb in right["verbs"] if verb not in unneeded_verbs] or right["verbs"]
        verbs = needed if right.get("asked", True) else []
        # A list without a namespace is of a run that needs the right nowhere.
        for asked in itertools.product(right["resources"], right.get("namespaces", [""]), right.get("names", [""]), verbs):
            resource, namespace, name, verb = map(str, asked)
            review = {"group": right["group"], "resource": resource, "verb": verb, "namespace": namespace, "name": name}
            if not api.is_allowed(review):
                group = f".{right['group']}" if right["group"] else ""
                named = f" named {name}" if name else ""
                place = f" in namespace {namespace}" if namespace else ""
                yield f"the user may not {verb} {resource}{group}{named}{place}: grant the verb"
