# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The members of an apply set in a cluster: applied and pruned, checked before, verified after, and deleted.

Each state can be repeated after an interruption at any place. An object of others is neither replaced nor deleted.
"""

from __future__ import annotations

import contextlib
import typing as t
from collections.abc import Collection, Mapping, Sequence

from ...kube.client.errors import ApiError, ForbiddenError, KubeError, NotFoundError, is_permission_error
from ...kube.client.resources import PODS
from ...model.messages import listed
from ...state.restart_outcome import OUTCOME_ANNOTATION
from .cluster import ObjectsApi, ObjectsError, delete_found
from .objects import (
    NAME,
    Json,
    Reference,
    comparable,
    difference,
    different_paths,
    is_managed,
    is_member,
    keeps_namespace,
    kind_of,
    labels_of,
    member_selector,
    mounted_config_maps,
    namespace_object,
    reference_of,
    set_labels,
    shown,
)
from .polling import polled
from .rights import GROUP, RIGHTS_KINDS, permission_objects

NAMESPACE_PART = "namespace"
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
STATE = tuple(
    Reference(version, kind, "kube-system", name)
    for version, kind in (("coordination.k8s.io/v1", "Lease"), ("v1", "ConfigMap"))
    for name in ("kube-scheduling-rebalance", "kube-scheduling-rescue")
)
"""The objects that the programs and the modules have written."""
WITH_OUTCOME = ("Deployment", "StatefulSet", "ReplicaSet", "ControllerRevision")
"""A Deployment copies its annotations to its ReplicaSets, and a StatefulSet to its ControllerRevisions, so those are last."""
IGNORED_KINDS = ("Endpoints", "EndpointSlice", "Event", "PodMetrics")
"""These kinds do not keep a namespace: the cluster itself makes their objects."""
MOST_NAMED, MOST_LETTERS = 20, 200


def parts_of(given: Json) -> dict[str, list[Json]]:
    """Return the wanted objects with their labels, in the order in which they are applied, by their part."""
    name, namespace, labels = given["name"], given["namespace"], set_labels(given["name"], given["component"])
    parts: dict[str, list[Json]] = {}
    if given["permissions"] is not None:
        parts["permissions"] = list(permission_objects(name, namespace, given["permissions"], given["user"]))
    for part, items in {**parts, **given["objects"]}.items():
        metadata = [{**item["metadata"], "labels": {**labels_of(item), **labels}} for item in items]
        parts[part] = [{**item, "metadata": named} for item, named in zip(items, metadata)]
    return {**({NAMESPACE_PART: [namespace_object(namespace)]} if given["create_namespace"] else {}), **parts}


class ApplySet:
    """The objects that a program should have and those that it has.

    ``given`` are the options of the module k8s_apply_set, and ``result`` is its result, which the states fill in. The states are the
    methods without an underscore.
    """

    def __init__(self, api: ObjectsApi, given: Json, result: Json, *, check_mode: bool) -> None:
        self._api, self._given, self._result, self._check_mode = api, given, result, check_mode
        self._name, self._place = given["name"], given["namespace"]
        self._namespace = Reference("v1", "Namespace", "", self._place)
        items = [item for part in parts_of(given).values() for item in part]
        rights = () if given["permissions"] is None else RIGHTS_KINDS[1:] if given["user"] else RIGHTS_KINDS
        kinds = [*rights, *(kind_of(item) for item in items if item["kind"] != "Namespace"), *given["kinds"]]
        # In the order in which objects are applied. They are deleted in the reverse order, so that a program ends before its rights do.
        self._order = [(version, kind) for version, _slash, kind in (text.rpartition("/") for text in dict.fromkeys(kinds))]
        optional = given["optional_kinds"]
        known = [item for item in items if kind_of(item) not in optional or api.resource(item["apiVersion"], item["kind"])]
        self._wanted = {reference_of(item): item for item in known}
        self._found: dict[Reference, Json] = {}
        self._planned: dict[str, list[str]] = {}
        self.problems: list[str] = []
        result.update(objects=[], remarks=[], diff=[], not_deleted=[], outcomes=0, namespace_stays="")

    def present(self) -> None:
        """Apply the wanted objects in their order, and delete the members that are not wanted.

        Each Deployment is available before the next object is applied. Raises ObjectsError and KubeError.
        """
        self._read()
        if self._foreign():
            raise ObjectsError(self._foreign_text())
        for reference, item in self._wanted.items():
            self._apply(reference, item)
        self._delete_members(kept=self._wanted)
        self._remark_plan()

    def absent(self) -> None:
        """Delete all members, and then the namespace if nothing of others is in it. Raises ObjectsError and KubeError."""
        self._read()
        result = self._result
        result["not_deleted"] = [reference.text for reference in self._foreign()]
        self._delete_members(kept=())
        if self._given["removes_state"]:
            self._remove_state()
        if self._given["create_namespace"] and self._namespace in self._found:
            result["namespace_stays"] = self._why_namespace_stays()
            if not result["namespace_stays"]:
                self._delete_one(self._namespace, self._found[self._namespace])
        self._remark_plan()
        foreign = ", ".join(result["not_deleted"])
        result["remarks"] += [f"Not deleted, because they do not have the labels of this collection: {foreign}"] if foreign else []
        result["remarks"] += filter(None, [result["namespace_stays"]])

    def checked(self) -> None:
        """Try all wanted objects as a dry run, and add a problem for each one that the API server or this collection would refuse.

        Missing rights are not named here, because they would be named for each object.
        """
        with contextlib.suppress(ForbiddenError):
            self._read()
        if self._foreign():
            self.problems.append(self._foreign_text().partition(". ")[2])
        for reference, item in self._wanted.items():
            self._note(reference, "unchanged")
            self._try(reference, item)

    def verified(self) -> None:
        """Add a problem for each wanted object that is missing, of others, not available, or not as it would be applied."""
        self._read()
        other, form = OTHER_FORMS.get(self._name, ("", ""))
        if other and self._api.find(Reference(f"{GROUP}/v1", "ClusterRole", "", other)):
            self.problems.append(f"The program is also installed as a {form}: {REMEDY}, which removes it")
        missing = [reference.text for reference in self._wanted if reference not in self._found]
        if missing and self._wanted.keys() & self._found.keys() <= {self._namespace}:
            self.problems.append(f"{self._name} is not installed: {REMEDY}. Missing: {', '.join(missing)}")
            return
        for reference, item in self._wanted.items():
            self._verify(reference, item)

    def _read(self) -> None:
        """Find the members by their labels, and the objects of others that have the names of wanted ones."""
        self._find(self._namespace)
        if self._namespace in self._found and not is_managed(self._found[self._namespace]):
            self._wanted.pop(self._namespace, None)  # a namespace that others made keeps its labels
        for version, kind in self._order:
            if kind != "Secret":  # found by its name: the right to list Secrets would show all of the namespace
                place = "" if kind in ROLES else self._place
                found = self._api.list_plain(version, kind, namespace=place, labels=member_selector(self._name))
                self._found.update((reference_of(item), item) for item in found)
        for reference in self._wanted:
            self._find(reference)

    def _find(self, reference: Reference) -> None:
        found = None if reference in self._found else self._api.find(reference)
        if found is not None:
            self._found[reference] = found

    def _foreign(self) -> list[Reference]:
        """Return the wanted objects under whose names others have made objects. A namespace of others can be used."""
        others = [reference for reference, item in self._found.items() if not is_member(item, self._name)]
        return [reference for reference in self._wanted if reference in others and reference != self._namespace]

    def _foreign_text(self) -> str:
        labels = " ".join(f"{key}={value}" for key, value in set_labels(self._name, self._given["component"]).items())
        names = ", ".join(reference.text for reference in self._foreign())
        return (
            f"Nothing was applied. These objects do not have the labels of this collection, so others may have made them: {names}. "
            f"Delete or rename them. If they are of this collection, restore their labels: kubectl label KIND NAME {labels}"
        )

    def _has_no_namespace_yet(self, reference: Reference) -> bool:
        """Return whether the API server cannot try the object, because its namespace does not exist."""
        return reference.namespace == self._place and self._namespace not in self._found

    def _note(self, reference: Reference, change: str, before: t.Optional[Json] = None, after: t.Optional[Json] = None) -> None:
        """Remember what happened to an object."""
        _version, kind, namespace, name = reference
        self._result["objects"].append({"kind": kind, "namespace": namespace, "name": name, "change": change})
        if change != "unchanged":
            self._plan(change, reference.text)
            self._result["diff"].append(difference(reference.text, shown(before), shown(after)))

    def _plan(self, change: str, text: str) -> None:
        self._result["changed"] = True
        self._planned.setdefault(change, []).append(text)

    def _remark_plan(self) -> None:
        self._result["remarks"] += [f"Would be {change}: {', '.join(texts)}" for change, texts in self._planned.items() if self._check_mode]

    def _apply(self, reference: Reference, item: Json) -> None:
        before, after = self._found.get(reference), item
        if not (self._check_mode and self._has_no_namespace_yet(reference)):
            after = self._api.apply(reference, item, dry_run=self._check_mode)
        same = before is not None and comparable(before) == comparable(after)
        self._note(reference, "unchanged" if same else "created" if before is None else "changed", before, after)
        if reference.kind == "Deployment" and self._given["wait_timeout"] > 0 and not self._check_mode:
            self._wait(reference, item)

    def _try(self, reference: Reference, item: Json) -> None:
        moved = self._has_no_namespace_yet(reference)
        tried = {**item, "metadata": {**item["metadata"], "namespace": TRIAL_NAMESPACE}} if moved else item
        what = f"{reference.kind} {reference.name}"
        try:
            self._api.apply(reference_of(tried), tried, dry_run=True)
            if reference.kind == "Deployment":
                what = f"a pod of {what}"
                template, place = item["spec"]["template"], tried["metadata"]["namespace"]
                metadata = {**template["metadata"], "name": f"{reference.name}-try", "namespace": place}
                # Its service account may not exist yet.
                spec = {**template["spec"], "serviceAccountName": "default"}
                self._api.create(PODS, place, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, dry_run=True)
        except ApiError as error:
            text = str(error)
            # A user who may not bind every role needs the role itself, which does not exist yet.
            is_early = isinstance(error, NotFoundError) and reference.kind.endswith("RoleBinding")
            if not is_permission_error(error) and not is_early and not (moved and any(word in text for word in OF_PLACE)):
                place = f" in namespace {reference.namespace}" if reference.namespace else ""
                said = text.partition(": ")[2] if text.startswith("cannot ") else text
                self.problems.append(f"{what}{place} is refused: {_one_line(said, 600)}")

    def _verify(self, reference: Reference, item: Json) -> None:
        found, text = self._found.get(reference), reference.text
        if found is None:
            # A Deployment that mounts another immutable object differs itself.
            self.problems += [] if item.get("immutable") else [f"{text} is missing: {REMEDY}"]
            return
        if reference in self._foreign():
            self.problems.append(f"{text} does not have the labels of this collection: delete or rename it, and {REMEDY}")
            return
        try:
            paths = list(different_paths(comparable(found), comparable(self._api.apply(reference, item, dry_run=True))))
            self.problems += [f"{text} differs from the variables in {listed(paths, MOST_FIELDS)}: {REMEDY}"] if paths else []
        except ApiError as error:
            self.problems.append(f"{text} cannot be compared: {error}")
        if reference.kind == "Deployment":
            is_ready, said = availability(found, item["spec"]["replicas"])
            if not is_ready:
                self.problems.append(f"{text}: {said}: see kubectl --namespace {reference.namespace} describe pods")
            elif said:
                self._result["remarks"].append(f"{text}: {said}. That is enough.")
        if reference.kind == "CronJob":
            self._verify_pods(reference)

    def _verify_pods(self, reference: Reference) -> None:
        """Name the pods of a CronJob that do not start. A Job exists only for some minutes, so no pod is no problem."""
        try:
            pods = self._api.list_plain("v1", "Pod", namespace=reference.namespace, labels=f"{NAME}={self._name}")
        except KubeError as error:  # the playbook site does not need this right
            text = "It is not known whether the pods of the CronJob start, because they cannot be listed"
            self._result["remarks"].append(f"{text}: {_one_line(str(error), 300)}")
            return
        for pod in pods:
            name = pod["metadata"]["name"]
            for status in (pod.get("status") or {}).get("containerStatuses") or ():
                reason = ((status.get("state") or {}).get("waiting") or {}).get("reason", "")
                if reason not in STARTING:
                    text = f"Pod {reference.namespace}/{name} of the CronJob does not start ({reason})"
                    self.problems.append(f"{text}: see kubectl --namespace {reference.namespace} describe pod {name}")

    def _wait(self, reference: Reference, item: Json) -> None:
        """Wait until a Deployment is available. Raises ObjectsError with the reason for which its pods find no node."""
        limit_s, replicas = self._given["wait_timeout"], item["spec"]["replicas"]
        found = polled(lambda: self._api.find(reference) or item, lambda one: availability(one, replicas)[0], limit_s)
        is_ready, text = availability(found, replicas)
        if is_ready:
            return
        labels = ",".join(f"{key}={value}" for key, value in item["spec"]["selector"]["matchLabels"].items())
        try:
            pods = self._api.list_plain("v1", "Pod", namespace=reference.namespace, labels=labels, fields="status.phase=Pending")
        except KubeError:
            pods = []  # without the right to list pods, the error has no reason
        parts = [f"{reference.text}: {text} after {limit_s} s ({condition_texts(found)}).", *unscheduled_texts(pods)]
        parts += [self._given["pending_remedy"]] if self._given["pending_remedy"] and len(parts) > 1 else []
        raise ObjectsError(" ".join([*parts, f"See kubectl --namespace {reference.namespace} describe pods, and run the role again."]))

    def _delete_members(self, *, kept: Collection[Reference]) -> None:
        """Delete the members in the reverse order of their kinds. Each one is gone before the next one is deleted.

        A ConfigMap that a revision of the program's Deployment mounts stays, because a rollback needs it.
        """
        members = [reference for reference, item in self._found.items() if is_member(item, self._name) and reference not in kept]
        for reference in sorted(members, key=lambda one: -self._order.index((one.api_version, one.kind))):
            item, mounted = self._found[reference], []
            if item.get("immutable") and reference.kind == "ConfigMap":
                labels = member_selector(self._name)
                mounted = mounted_config_maps(self._api.list_plain("apps/v1", "ReplicaSet", namespace=reference.namespace, labels=labels))
            if reference.name not in mounted:
                self._delete_one(reference, item)

    def _delete_one(self, reference: Reference, item: Json) -> None:
        self._note(reference, "deleted", item, None)
        if self._check_mode:
            return
        uid, limit_s = item["metadata"]["uid"], self._given["delete_timeout"]
        self._api.delete(reference, uid)
        gone: Json = {"metadata": {}}
        found = polled(lambda: self._api.find(reference) or gone, lambda one: one["metadata"].get("uid") != uid, limit_s)
        if found["metadata"].get("uid") == uid:
            finalizers: Sequence[str] = found["metadata"].get("finalizers") or ["none"]
            raise ObjectsError(
                f"{reference.text} still exists {limit_s} s after its deletion (its finalizers: {', '.join(finalizers)}). "
                "Remove what prevents its end, and run this again."
            )

    def _remove_state(self) -> None:
        """Delete the Leases and the ConfigMaps of the programs, and remove the outcomes of workloads. Raises KubeError."""
        for found in delete_found(self._api, STATE, dry_run=self._check_mode):
            self._note(reference_of(found), "deleted", found)
        for kind in WITH_OUTCOME:
            for item in self._api.list_plain("apps/v1", kind, namespace=""):
                if OUTCOME_ANNOTATION in (item["metadata"].get("annotations") or {}):
                    self._plan("removed", f"the outcome on {reference_of(item).text}")
                    self._result["outcomes"] += 1
                    if not self._check_mode:
                        self._api.remove_annotation(reference_of(item), OUTCOME_ANNOTATION)

    def _why_namespace_stays(self) -> str:
        """Return the reason for which the namespace is not deleted, or an empty text. A kind that cannot be read keeps it."""
        if not is_managed(self._found[self._namespace]):
            return f"Namespace {self._place} is not deleted, because this collection did not make it"
        found, unread = self._api.list_namespace(self._place, ignored_kinds=IGNORED_KINDS)
        components = [self._given["component"], *self._given["components"]]
        reasons = [f"{item['kind']}/{item['metadata']['name']}" for item in found if keeps_namespace(item, components)]
        reasons += [_one_line(text, MOST_LETTERS) for text in unread]
        if not reasons:
            return ""
        return f"Namespace {self._place} is not deleted, because it has objects of others: {listed(reasons, MOST_NAMED)}"


def availability(deployment: Json, replicas: int) -> tuple[bool, str]:
    """Return whether the Deployment is updated and available, and a text if replicas are missing.

    One may be missing, because a cluster may have only one node for replicas that need a node each. At least one must be available.
    """
    status = deployment.get("status") or {}
    updated, available = (int(status.get(name) or 0) for name in ("updatedReplicas", "availableReplicas"))
    if int(status.get("observedGeneration") or 0) < int(deployment["metadata"].get("generation") or 1):
        return False, "its controller has not read it yet"
    if updated != replicas:
        return False, f"{updated} of {replicas} replicas are updated"
    needed = max(replicas - 1, min(replicas, 1))
    return available >= needed, f"{available} of {replicas} replicas are available" if available < replicas else ""


def condition_texts(item: Json) -> str:
    """Return the messages of the conditions of an object, each once."""
    conditions: Sequence[Mapping[str, t.Any]] = (item.get("status") or {}).get("conditions") or ()
    return " ".join(dict.fromkeys(filter(None, (str(condition.get("message") or "") for condition in conditions))))


def unscheduled_texts(pods: Sequence[Json]) -> list[str]:
    """Return a sentence for each reason for which pods find no node."""
    found: dict[str, list[str]] = {}
    for pod in pods:
        for condition in (pod.get("status") or {}).get("conditions") or ():
            if condition["type"] == "PodScheduled" and condition["status"] == "False":
                reason = str(condition.get("message") or condition.get("reason") or "no reason").rstrip(".")
                found.setdefault(reason, []).append(pod["metadata"]["name"])
    return [f"No node is found for {', '.join(names)}: {reason}." for reason, names in sorted(found.items())]


def _one_line(text: str, most_letters: int) -> str:
    return " ".join(text.split())[:most_letters]
