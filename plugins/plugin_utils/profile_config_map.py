# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The configuration of kube-scheduler in a ConfigMap, written with the resource version that was read."""

from __future__ import annotations

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.connection_options import given_options
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import (
    ConflictError,
    KubeError,
    NotFoundError,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.open_transport import open_transport_with
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import CONFIG_MAPS
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import MSGSPEC_IMPORT_ERROR
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.problem import SchedulerConfigError

TRIES = 5
USER_AGENT = "onprem.kube_scheduling/scheduler_profile"


def update_config_map(options, environment, plan, *, check_mode):
    """Write the text that ``plan`` makes of the present one, and return the plan. After a conflict both are repeated.

    Raise SchedulerConfigError, also for errors of the API server.
    """
    if MSGSPEC_IMPORT_ERROR is not None:
        raise SchedulerConfigError(
            f"the Python library msgspec is needed on the controller for configmap: {MSGSPEC_IMPORT_ERROR}; install it with pip"
        )
    sent = None

    def remember(text):
        nonlocal sent
        sent = plan(text)
        return sent

    try:
        api = KubeApi(open_transport_with(given_options(options, environment), user_agent=USER_AGENT))
        for attempt in range(1, TRIES + 1):
            written = sent
            try:
                result = _update(api, options["configmap"], remember, check_mode=check_mode)
            except ConflictError as error:
                if attempt == TRIES:
                    raise
                # If only the answer to a write was lost, the next read finds the written text.
                sent = sent if error.repeated else None
                continue
            return written if written is not None and not result.changed else result
    except KubeError as error:
        raise SchedulerConfigError(str(error)) from error
    raise AssertionError("unreachable")


def _update(api, place, plan, *, check_mode):
    namespace, name, key = place["namespace"], place["name"], place["key"]
    try:
        found = api.get(CONFIG_MAPS, namespace, name)
    except NotFoundError:
        found = None
    result = plan((found.data or {}).get(key) if found is not None else None)
    if not result.changed:
        return result
    if found is None:
        metadata = {"namespace": namespace, "name": name}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {key: result.after}}
        api.create(CONFIG_MAPS, namespace, body, dry_run=check_mode)
    else:
        patch = {"metadata": {"resourceVersion": found.metadata.resource_version}, "data": {key: result.after}}
        api.merge_patch(CONFIG_MAPS, namespace, name, patch, dry_run=check_mode)
    return result
