# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The members of an apply set in a cluster: applied and pruned, checked before, verified after, and deleted.

Each function can be repeated after an interruption at any place. An object of others is neither replaced nor deleted.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Sequence

from ...kube.client.errors import ApiError, ForbiddenError, KubeError, NotFoundError, is_permission_error
from ...kube.client.resources import PODS
from ...model.messages import listed
from .availability import availability, condition_texts, unscheduled_texts
from .cluster import ObjectsApi
from .discovery import read_namespace_objects
from .objects import (
    NAME,
    Json,
    Reference,
    comparable,
    different_paths,
    in_namespace,
    is_managed,
    is_member,
    kinds_in_order,
    member_selector,
    pod_of,
    reference_of,
    set_labels,
    used_config_maps,
)
from .options import ApplySetError, Options, Outcome
from .polling import polled
from .rest import IGNORED_KINDS, why_it_stays
from .rights import GROUP, RIGHTS_KINDS
from .state import remove_state

ROLES = ("Role", "RoleBinding")
"""A set may have these in any namespace, also in one that the settings do not have any more."""
TRIAL_NAMESPACE = "kube-system"
"""The API server tries no object in a namespace that does not exist. Policies for the namespaces of users seldom apply in this one."""
OF_PLACE = ("exceeded quota", "admission webhook")
"""Refusals of kube-system itself, which do not apply elsewhere."""
REMEDY = "run the playbook onprem.kube_scheduling.site"
STARTING = ("", "ContainerCreating", "PodInitializing")
OTHER_FORMS = {
    "kube-scheduling-rescuer": ("kube-scheduling-rescuer-static", "static pod"),
    "kube-scheduling-rescuer-static": ("kube-scheduling-rescuer", "Deployment"),
}
"""The name of the other form of a program, whose ClusterRole is made before its pods, and removed after them."""
MOST_FIELDS = 5
RETRY_FOR_S, ANSWER_TIMEOUT_S = 10.0, 30.0
"""An aggregated API without a server does not answer later either."""


class ApplySet:
    """The objects that a program should have and those that it has."""

    def __init__(self, api: ObjectsApi, options: Options, outcome: Outcome) -> None:
        self._api, self._options, self._outcome = api, options, outcome
        self._namespace = Reference("v1", "Namespace", "", options.namespace)
        items = [item for part in options.all_parts().values() for item in part]
        unknown = {kind for kind in options.optional_kinds if not api.serves(kind.rpartition("/")[0], kind.rpartition("/")[2])}
        self._wanted = {reference_of(item): item for item in items if f"{item['apiVersion']}/{item['kind']}" not in unknown}
        rights = () if options.permissions is None else RIGHTS_KINDS[1:] if options.user else RIGHTS_KINDS
        self._order = kinds_in_order(rights, [item for item in items if item["kind"] != "Namespace"], options.kinds)
        self._found: dict[Reference, Json] = {}
        self._found_namespace: t.Optional[Json] = None

    def present(self) -> None:
        """Apply the wanted objects in their order, and delete the members that are not wanted.

        Each Deployment is available before the next object is applied. Raises ApplySetError and KubeError.
        """
        self._read()
        if self._foreign():
            raise ApplySetError(self._foreign_text())
        for reference, item in self._applied().items():
            self._apply(reference, item)
            if reference.kind == "Deployment" and self._options.wait_timeout_s > 0 and not self._options.check_mode:
                self._wait(reference, item)
        self._delete(reference for reference in self._members() if reference not in self._wanted)

    def absent(self) -> None:
        """Delete all members, and then the namespace if nothing of others is in it. Raises ApplySetError and KubeError."""
        self._read()
        self._outcome.not_deleted += [reference.text for reference in self._foreign()]
        self._delete(self._members())
        if self._options.removes_state:
            remove_state(self._api, self._outcome, check_mode=self._options.check_mode)
        if self._options.create_namespace and self._found_namespace is not None:
            self._delete_namespace(self._found_namespace)

    def check(self) -> None:
        """Try all wanted objects as a dry run, and add a problem for each one that the API server or this collection would refuse.

        Missing rights are not named here, because they would be named for each object.
        """
        try:
            self._read()
        except ForbiddenError as error:
            if not error.lacks_role:
                raise
        if self._foreign():
            self._outcome.problems.append(self._foreign_text().partition(". ")[2])
        for reference, item in self._applied().items():
            self._outcome.changes[reference] = "unchanged"
            self._try(reference, item)

    def verify(self) -> None:
        """Add a problem for each wanted object that is missing, of others, not available, or not as it would be applied."""
        self._read()
        applied = self._applied()
        other, form = OTHER_FORMS.get(self._options.name, ("", ""))
        if other and self._api.find(Reference(f"{GROUP}/v1", "ClusterRole", "", other)):
            self._outcome.problems.append(f"The program is also installed as a {form}: {REMEDY}, which removes it")
        missing = [reference for reference in applied if reference not in self._found]
        if missing and all(reference in missing or reference == self._namespace for reference in applied):
            names = ", ".join(reference.text for reference in missing)
            self._outcome.problems.append(f"{self._options.name} is not installed: {REMEDY}. Missing: {names}")
            return
        for reference, item in applied.items():
            found = self._found.get(reference)
            self._outcome.problems += self._differences(reference, item, found)
            if found is not None and reference.kind == "Deployment":
                self._verify_replicas(reference, item, found)
            if found is not None and reference.kind == "CronJob":
                self._verify_pods(reference)

    def _read(self) -> None:
        """Find the members by their labels, and the objects of others that have the names of wanted ones."""
        self._found_namespace = self._api.find(self._namespace)
        labels = member_selector(self._options.name)
        for version, kind in self._order:
            namespace = "" if kind in ROLES else self._options.namespace
            if kind == "Secret":
                continue  # found by its name: the right to list Secrets would show all of the namespace
            for item in self._api.list_plain(version, kind, namespace=namespace, labels=labels):
                self._found[reference_of(item)] = item
        if self._found_namespace is not None:
            self._found[self._namespace] = self._found_namespace
        for reference in self._wanted:
            is_nowhere = self._found_namespace is None and reference.namespace == self._options.namespace
            existing = None if reference in self._found or is_nowhere else self._api.find(reference)
            if existing is not None:
                self._found[reference] = existing

    def _members(self) -> list[Reference]:
        return [reference for reference, item in self._found.items() if is_member(item, self._options.name)]

    def _foreign(self) -> list[Reference]:
        """Return the wanted objects under whose names others have made objects. A namespace of others can be used."""
        members = self._members()
        return [one for one in self._wanted if one.kind != "Namespace" and one in self._found and one not in members]

    def _applied(self) -> dict[Reference, Json]:
        """Return the wanted objects. A namespace that others made keeps its labels."""
        keeps = self._found_namespace is not None and not is_managed(self._found_namespace)
        return {one: item for one, item in self._wanted.items() if not (keeps and one == self._namespace)}

    def _foreign_text(self) -> str:
        labels = " ".join(f"{key}={value}" for key, value in set_labels(self._options.name, self._options.component).items())
        names = ", ".join(reference.text for reference in self._foreign())
        return (
            f"Nothing was applied. These objects do not have the labels of this collection, so others may have made them: {names}. "
            f"Delete or rename them. If they are of this collection, restore their labels: kubectl label KIND NAME {labels}"
        )

    def _apply(self, reference: Reference, item: Json) -> None:
        before = self._found.get(reference)
        if self._options.check_mode and self._found_namespace is None and reference.namespace == self._options.namespace:
            after = item  # the API server cannot try it before its namespace exists
        else:
            after = self._api.apply(reference, item, dry_run=self._options.check_mode)
        same = before is not None and comparable(before) == comparable(after)
        self._outcome.note(reference, "unchanged" if same else "created" if before is None else "changed", before, after)

    def _try(self, reference: Reference, item: Json) -> None:
        moved = self._found_namespace is None and reference.namespace == self._options.namespace
        tried = in_namespace(item, TRIAL_NAMESPACE) if moved else item
        what = f"{reference.kind} {reference.name}"
        try:
            self._api.apply(reference_of(tried), tried, dry_run=True)
            if reference.kind == "Deployment":
                what = f"a pod of {what}"
                self._api.create(PODS, tried["metadata"]["namespace"], pod_of(tried), dry_run=True)
        except ApiError as error:
            text = str(error)
            # A user who may not bind every role needs the role itself, which does not exist yet.
            is_early = isinstance(error, NotFoundError) and reference.kind.endswith("RoleBinding")
            if not is_permission_error(error) and not is_early and not (moved and any(word in text for word in OF_PLACE)):
                place = f" in namespace {reference.namespace}" if reference.namespace else ""
                said = text.partition(": ")[2] if text.startswith("cannot ") else text
                self._outcome.problems.append(f"{what}{place} is refused: {' '.join(said.split())[:600]}")

    def _differences(self, reference: Reference, item: Json, found: t.Optional[Json]) -> Iterable[str]:
        if found is None and item.get("immutable"):
            return []  # the Deployment mounts another one, and differs
        if found is None:
            return [f"{reference.text} is missing: {REMEDY}"]
        if reference in self._foreign():
            return [f"{reference.text} does not have the labels of this collection: delete or rename it, and {REMEDY}"]
        try:
            after = self._api.apply(reference, item, dry_run=True)
        except ApiError as error:
            return [f"{reference.text} cannot be compared: {error}"]
        paths = list(different_paths(comparable(found), comparable(after)))
        return [f"{reference.text} differs from the variables in {listed(paths, MOST_FIELDS)}: {REMEDY}"] if paths else []

    def _verify_replicas(self, reference: Reference, item: Json, found: Json) -> None:
        status = availability(found, item["spec"]["replicas"])
        if not status.ready:
            self._outcome.problems.append(f"{reference.text}: {status.text}: see kubectl --namespace {reference.namespace} describe pods")
        elif status.text:
            self._outcome.remarks.append(f"{reference.text}: {status.text}. That is enough.")

    def _verify_pods(self, reference: Reference) -> None:
        """Name the pods of a CronJob that do not start. A Job exists only for some minutes, so no pod is no problem."""
        try:
            pods = self._api.list_plain("v1", "Pod", namespace=reference.namespace, labels=f"{NAME}={self._options.name}")
        except KubeError as error:  # the playbook site does not need this right
            text = "It is not known whether the pods of the CronJob start, because they cannot be listed"
            self._outcome.remarks.append(f"{text}: {' '.join(str(error).split())[:300]}")
            return
        for pod in pods:
            name, statuses = pod["metadata"]["name"], (pod.get("status") or {}).get("containerStatuses") or ()
            reasons = [((status.get("state") or {}).get("waiting") or {}).get("reason", "") for status in statuses]
            see = f"see kubectl --namespace {reference.namespace} describe pod {name}"
            self._outcome.problems += [
                f"Pod {reference.namespace}/{name} of the CronJob does not start ({reason}): {see}"
                for reason in reasons
                if reason not in STARTING
            ]

    def _wait(self, reference: Reference, item: Json) -> None:
        """Wait until a Deployment is available. Raises ApplySetError with the reason for which its pods find no node."""
        limit_s, replicas = self._options.wait_timeout_s, item["spec"]["replicas"]
        found = polled(lambda: self._api.find(reference) or item, lambda one: availability(one, replicas).ready, limit_s)
        status = availability(found, replicas)
        if status.ready:
            return
        parts = [f"{reference.text}: {status.text} after {limit_s} s ({condition_texts(found)})."]
        pending = self._pending_texts(reference, item)
        parts += [*pending, *filter(None, [self._options.pending_remedy if pending else ""])]
        raise ApplySetError(" ".join([*parts, f"See kubectl --namespace {reference.namespace} describe pods, and run the role again."]))

    def _pending_texts(self, reference: Reference, item: Json) -> list[str]:
        labels = ",".join(f"{key}={value}" for key, value in item["spec"]["selector"]["matchLabels"].items())
        try:
            pods = self._api.list_plain("v1", "Pod", namespace=reference.namespace, labels=labels)
        except KubeError:
            return []  # without the right to list pods, the error has no reason
        return unscheduled_texts([pod for pod in pods if (pod.get("status") or {}).get("phase") == "Pending"])

    def _delete(self, references: Iterable[Reference]) -> None:
        """Delete the objects in the reverse order of their kinds. Each one is gone before the next one is deleted."""
        rank = {kind: number for number, kind in enumerate(self._order)}
        for reference in sorted(references, key=lambda one: -rank.get((one.api_version, one.kind), len(rank))):
            item = self._found[reference]
            if item.get("immutable") and reference.kind == "ConfigMap" and reference.name in self._mounted(item):
                continue
            self._delete_one(reference, item)

    def _mounted(self, item: Json) -> set[str]:
        """Return the ConfigMaps that revisions of the program's Deployment mount. A rollback needs them."""
        labels, namespace = member_selector(self._options.name), item["metadata"]["namespace"]
        return used_config_maps(self._api.list_plain("apps/v1", "ReplicaSet", namespace=namespace, labels=labels))

    def _delete_one(self, reference: Reference, item: Json) -> None:
        self._outcome.note(reference, "deleted", item, None)
        if self._options.check_mode:
            return
        uid, limit_s = item["metadata"]["uid"], self._options.delete_timeout_s
        self._api.delete(reference, uid)
        found = polled(lambda: self._api.find(reference), lambda one: one is None or one["metadata"]["uid"] != uid, limit_s)
        if found is None or found["metadata"]["uid"] != uid:
            return
        finalizers: Sequence[str] = found["metadata"].get("finalizers") or ["none"]
        raise ApplySetError(
            f"{reference.text} still exists {limit_s} s after its deletion (its finalizers: {', '.join(finalizers)}). "
            "Remove what prevents its end, and run this again."
        )

    def _delete_namespace(self, found: Json) -> None:
        name = self._options.namespace
        if not is_managed(found):
            self._outcome.namespace_stays = f"Namespace {name} is not deleted, because this collection did not make it"
            return
        api = self._api.with_timeouts(retry_for_s=RETRY_FOR_S, answer_timeout_s=ANSWER_TIMEOUT_S)
        objects = read_namespace_objects(api, name, exclude_kinds=IGNORED_KINDS)
        self._outcome.namespace_stays = why_it_stays(name, objects, self._options.components)
        if not self._outcome.namespace_stays:
            self._delete_one(self._namespace, found)
