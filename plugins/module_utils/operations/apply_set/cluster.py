# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Requests for objects of any kind as plain values: read, list, apply, delete, and reviews of the user's own rights.

Source of the discovery's paths and fields: k8s.io/apimachinery ``pkg/apis/meta/v1/types.go``, APIGroupList and APIResourceList.
"""

from __future__ import annotations

import functools
import typing as t
from collections.abc import Collection, Iterable

from ...kube.client.api import MERGE_PATCH, KubeApi
from ...kube.client.errors import ApiError, ConflictError, KubeError, NotFoundError, RequestTarget
from ...kube.client.resources import Resource
from ...model.api.meta import ApiStruct, ObjectMeta
from ...model.codec import decode_object, field
from .objects import Json, Reference, reference_of

APPLY_PATCH = "application/apply-patch+yaml"
FIELD_MANAGER = "kube-scheduling"
WITHOUT_DEPENDENTS = ("ConfigMap", "Lease", "Namespace", "Pod")
"""Their objects are gone as soon as they are deleted. The namespace has an order of its own."""
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
GRANT = " Grant the verb"
"""Begins the remedy of a denial. For several kinds it would be repeated, and name the roles of the programs."""
RETRY_FOR_S, ANSWER_TIMEOUT_S = 10.0, 30.0
"""An aggregated API without a server does not answer later either."""


class ObjectsError(KubeError):
    """Says what is wrong with objects, and what to do."""


class AnyObject(ApiStruct, frozen=True):
    """An object of any kind."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)


class ObjectsApi(KubeApi):
    """The requests for objects as plain values."""

    def resource(self, api_version: str, kind: str) -> t.Optional[Resource]:
        """Return the resource of a kind, or None if the API server does not know the kind."""
        entry = self._kinds(api_version).get(kind)
        return Resource(_path(api_version), entry["name"], kind, AnyObject, namespaced=entry["namespaced"]) if entry else None

    def find(self, reference: Reference) -> t.Optional[Json]:
        """Return an object, or None if there is none."""
        resource = self.resource(reference.api_version, reference.kind)
        try:
            return resource and self.get_plain(resource, reference.namespace, reference.name)
        except NotFoundError:
            return None

    def list_plain(self, api_version: str, kind: str, *, namespace: str, labels: str = "", fields: str = "") -> list[Json]:
        """Return the objects of a kind that both selectors select, each with its version and kind, or none of a kind that is not served.

        Objects of the whole cluster have no namespace. Without a namespace the objects of all namespaces are returned.
        """
        resource = self.resource(api_version, kind)
        if resource is None:
            return []
        selectors = [(name, text) for name, text in (("labelSelector", labels), ("fieldSelector", fields)) if text]
        pages = self._pages(resource, namespace if resource.namespaced else "", selectors)
        found = [item for page in pages for item in decode_object(dict[str, t.Any], page).get("items") or ()]
        return [{**item, "apiVersion": api_version, "kind": kind} for item in found]

    def list_namespace(self, namespace: str, *, ignored_kinds: Collection[str]) -> tuple[list[Json], list[str]]:
        """Return the objects of every kind that can be listed, and the kinds and versions that cannot be read, with the reason.

        All versions of a kind have the same objects, so each kind is read once. Raises KubeError if the groups cannot be read.
        """
        quick = ObjectsApi(self._transport, retry_for_s=RETRY_FOR_S, answer_timeout_s=ANSWER_TIMEOUT_S)
        groups = quick.get_path("/apis", dict[str, t.Any]).get("groups") or ()
        versions = [version["groupVersion"] for group in groups for version in (group["preferredVersion"], *group["versions"])]
        kinds: dict[tuple[str, str], str] = {}
        objects: list[Json] = []
        unread = []
        for version in dict.fromkeys(["v1", *versions]):
            try:
                for kind, entry in quick._kinds(version).items():
                    if entry["namespaced"] and "list" in (entry.get("verbs") or ()) and kind not in ignored_kinds:
                        kinds.setdefault((version.rpartition("/")[0], kind), version)
            except KubeError as error:
                unread.append(f"{version} ({error})")
        for (_group, kind), version in kinds.items():
            try:
                objects += quick.list_plain(version, kind, namespace=namespace)
            except KubeError as error:
                unread.append(f"{kind} ({str(error).partition(GRANT)[0]})")
        return objects, unread

    def create_once(self, resource: Resource, namespace: str, item: Json, *, dry_run: bool = False) -> None:
        """Create an object with a name that nobody else uses. After a lost answer, the object that exists is this one."""
        try:
            self.create(resource, namespace, item, dry_run=dry_run)
        except ConflictError as error:
            if not error.repeated:
                raise

    def apply(self, reference: Reference, item: Json, *, dry_run: bool) -> Json:
        """Apply the object on the server side, and return it. Fields that another manager has set are taken over.

        A repetition does no harm. Raises ApiError for an unknown kind, and the errors of a patch.
        """
        query = [("fieldManager", FIELD_MANAGER), ("force", "true"), *([("dryRun", "All")] if dry_run else [])]
        return self._change(reference, "patch", query=query, body=item, content_type=APPLY_PATCH)

    def delete(self, reference: Reference, uid: str) -> None:
        """Delete the object with this uid after its dependents. An object that is gone is no error."""
        foreground = {"propagationPolicy": "Foreground"} if reference.kind not in WITHOUT_DEPENDENTS else {}
        try:
            self._change(reference, "delete", body={**foreground, "preconditions": {"uid": uid}})
        except NotFoundError:
            return

    def remove_annotation(self, reference: Reference, name: str) -> None:
        """Remove an annotation. A repetition does no harm, and an object that is gone is no error."""
        try:
            self._change(reference, "patch", body={"metadata": {"annotations": {name: None}}}, content_type=MERGE_PATCH)
        except NotFoundError:
            return

    def is_allowed(self, asked: Json) -> bool:
        """Return whether the user has a right (SelfSubjectAccessReview)."""
        target = RequestTarget("a review of the rights of the user", "selfsubjectaccessreviews")
        spec = {"resourceAttributes": asked}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
        answer = self._repeat(lambda: self._write("post", REVIEWS, verb="create", target=target, body=body))
        return bool(decode_object(dict[str, t.Any], answer.unpack())["status"].get("allowed"))

    def _change(self, reference: Reference, verb: str, **how: t.Any) -> Json:
        resource = self.resource(reference.api_version, reference.kind)
        if resource is None:
            kind = f"{reference.api_version}/{reference.kind}"
            raise ApiError(f"the cluster does not know the kind {kind}: install what defines it", status=404)
        path, target = resource.path(*reference[2:]), resource.target(*reference[2:])
        answer = self._repeat(lambda: self._write(verb, path, verb=verb, target=target, **how))
        return decode_object(dict[str, t.Any], answer.unpack())

    @functools.cached_property
    def _known(self) -> dict[str, dict[str, Json]]:
        return {}

    def _kinds(self, api_version: str) -> dict[str, Json]:
        """Return the discovery of each kind in one version of a group. A version that is not served has none."""
        if api_version not in self._known:
            try:
                served = self.get_path(_path(api_version), dict[str, t.Any]).get("resources") or ()
            except NotFoundError:
                served = ()
            self._known[api_version] = {entry["kind"]: entry for entry in served if "/" not in entry["name"]}
        return self._known[api_version]


def delete_found(api: ObjectsApi, references: Iterable[Reference], *, dry_run: bool = False) -> list[Json]:
    """Delete those of the objects that exist, and return them."""
    found = [item for item in map(api.find, references) if item is not None]
    for item in found if not dry_run else ():
        api.delete(reference_of(item), item["metadata"]["uid"])
    return found


def _path(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
