# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Requests for objects of any kind as plain values: read, list, apply, delete, and reviews of the user's own rights."""

from __future__ import annotations

import functools
import typing as t

from ...kube.client.api import MERGE_PATCH, KubeApi
from ...kube.client.errors import ApiError, ConflictError, NotFoundError, RequestTarget
from ...kube.client.resources import Resource
from ...model.codec import decode_object
from .discovery import AnyObject, ServedResources
from .objects import Json, Reference

APPLY_PATCH = "application/apply-patch+yaml"
FIELD_MANAGER = "kube-scheduling"
WITHOUT_DEPENDENTS = ("ConfigMap", "Lease", "Namespace", "Pod")
"""Their objects are gone as soon as they are deleted. The namespace has an order of its own."""
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class ObjectsApi(KubeApi):
    """The requests for objects as plain values."""

    def serves(self, api_version: str, kind: str) -> bool:
        """Return whether the API server knows the kind."""
        return kind in self._kinds(api_version)

    def find(self, reference: Reference) -> t.Optional[Json]:
        """Return an object, or None if there is none."""
        if not self.serves(reference.api_version, reference.kind):
            return None
        try:
            return self.get_plain(self._resource(reference), reference.namespace, reference.name)
        except NotFoundError:
            return None

    def list_plain(self, api_version: str, kind: str, *, namespace: str, labels: str = "", fields: str = "") -> list[Json]:
        """Return the objects of a kind that both selectors select, each with its version and kind, or none of a kind that is not served.

        Objects of the whole cluster have no namespace. Without a namespace the objects of all namespaces are returned.
        """
        resource = self._kinds(api_version).get(kind)
        if resource is None:
            return []
        found: list[Json] = []
        selectors = [(name, text) for name, text in (("labelSelector", labels), ("fieldSelector", fields)) if text]
        for page in self._pages(resource, namespace if resource.namespaced else "", selectors):
            found += decode_object(dict[str, t.Any], page).get("items") or []
        return [{**item, "apiVersion": api_version, "kind": kind} for item in found]

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
        resource = self._resource(reference)
        query = [("fieldManager", FIELD_MANAGER), ("force", "true"), *([("dryRun", "All")] if dry_run else [])]
        target = resource.target(reference.namespace, reference.name)
        path = resource.path(reference.namespace, reference.name)

        def call() -> Json:
            answer = self._write("patch", path, verb="patch", target=target, query=query, body=item, content_type=APPLY_PATCH)
            return decode_object(dict[str, t.Any], answer.unpack())

        return self._repeat(call)

    def delete(self, reference: Reference, uid: str) -> None:
        """Delete the object with this uid after its dependents. An object that is gone is no error."""
        resource = self._resource(reference)
        foreground = {"propagationPolicy": "Foreground"} if reference.kind not in WITHOUT_DEPENDENTS else {}
        body = {**foreground, "preconditions": {"uid": uid}}
        target = resource.target(reference.namespace, reference.name)
        path = resource.path(reference.namespace, reference.name)
        try:
            self._repeat(lambda: self._write("delete", path, verb="delete", target=target, body=body))
        except NotFoundError:
            return

    def remove_annotation(self, reference: Reference, name: str) -> None:
        """Remove an annotation. A repetition does no harm. Raises the errors of a patch."""
        resource, patch = self._resource(reference), {"metadata": {"annotations": {name: None}}}
        self._repeat(lambda: self._patch(resource, reference.namespace, reference.name, patch, MERGE_PATCH, dry_run=False))

    def is_allowed(self, asked: Json) -> bool:
        """Return whether the user has a right (SelfSubjectAccessReview)."""
        target = RequestTarget("a review of the rights of the user", "selfsubjectaccessreviews")
        spec = {"resourceAttributes": asked}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
        answer = self._repeat(lambda: self._write("post", REVIEWS, verb="create", target=target, body=body))
        return bool(decode_object(dict[str, t.Any], answer.unpack())["status"].get("allowed"))

    def _resource(self, reference: Reference) -> Resource:
        found = self._kinds(reference.api_version).get(reference.kind)
        if found is None:
            kind = f"{reference.api_version}/{reference.kind}"
            raise ApiError(f"the cluster does not know the kind {kind}: install what defines it", status=404)
        return found

    @functools.cached_property
    def _known(self) -> dict[str, dict[str, Resource]]:
        return {}

    def _kinds(self, api_version: str) -> dict[str, Resource]:
        """Return the resources of one version of a group by their kind."""
        if api_version not in self._known:
            prefix = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
            try:
                served = self.get_path(prefix, ServedResources).resources or ()
            except NotFoundError:
                served = ()
            self._known[api_version] = {
                entry.kind: Resource(prefix, entry.name, entry.kind, AnyObject, namespaced=entry.namespaced)
                for entry in served
                if "/" not in entry.name
            }
        return self._known[api_version]
