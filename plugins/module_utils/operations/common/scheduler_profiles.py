# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Reads the profiles of the cluster's schedulers: those of ``scheduler_config``, and those of the role ``extended_scheduler``."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ...kube.client.api import KubeApi
from ...kube.client.config.files import ConnectionSettingsError, is_file, path_of, read_file, searched
from ...kube.client.errors import ForbiddenError, NotFoundError
from ...kube.client.resources import CONFIG_MAPS, DEPLOYMENTS
from ...model.option_values import OptionError
from ...model.scheduler_config_source import OPTION, SchedulerConfigSource
from ...model.scheduler_profile import DEFAULT_PROFILES, Profiles, SchedulerProfile
from ...model.snapshot import ClusterSnapshot

SECOND_SCHEDULER = ("kube-system", "kube-scheduling-scheduler")
"""The Deployment of the role extended_scheduler."""
CONFIG_ANNOTATION = "kube-scheduling.onprem/scheduler-config"
"""The annotation in which that Deployment has the configuration. The name of its ConfigMap changes with the content."""


def read_scheduler_profiles(api: KubeApi, scheduler_config: Sequence[str]) -> Profiles:
    """Return the profiles of these configurations. If none has ``default-scheduler``, its profile is the default one.

    Raise OptionError, which names the configuration, and KubeError if a ConfigMap cannot be read.
    """
    found: dict[str, SchedulerProfile] = {}
    for text in scheduler_config:
        source = SchedulerConfigSource.of(text)
        own = _profiles_in(_content_of(api, source), str(source))
        twice = sorted(found.keys() & own.keys())
        if twice:
            raise OptionError(
                f"{OPTION}: {source} has the profile {twice[0]}, and so has an earlier one; each profile may be in one of them only"
            )
        found.update(own)
    return {**DEFAULT_PROFILES, **found}


def add_second_scheduler(api: KubeApi, snapshot: ClusterSnapshot) -> None:
    """Add the profiles of the scheduler of ``extended_scheduler`` to the snapshot, if a pod needs an unknown profile.

    Nothing is added without the permission to list Deployments in its namespace. Raise KubeError.
    """
    named = {pod.spec.scheduler_name for pod in snapshot.pods}
    named.update(workload.spec.template.spec.scheduler_name for workload in snapshot.workloads())
    if named <= snapshot.profiles.keys():
        return
    namespace, name = SECOND_SCHEDULER
    try:
        deployments = api.list_all(DEPLOYMENTS, namespace=namespace, field_selector=f"metadata.name={name}")
    except ForbiddenError:
        return
    for deployment in deployments:
        text = (deployment.metadata.annotations or {}).get(CONFIG_ANNOTATION, "")
        try:
            snapshot.profiles = {**_profiles_in(text.encode(), f"Deployment {namespace}/{name}"), **snapshot.profiles}
        except OptionError:
            continue  # a Deployment of an earlier version, or an annotation that a user has changed: its profiles stay unknown


def _content_of(api: KubeApi, source: SchedulerConfigSource) -> bytes:
    if source.path:
        try:
            path = path_of(source.path)
            if not is_file(path):
                where = "on the machine on which this runs"
                raise OptionError(
                    f"{OPTION}: there is no file {searched(path)} {where}; copy the scheduler's file there, or correct the path"
                )
            return read_file(path)
        except ConnectionSettingsError as error:
            raise OptionError(f"{OPTION}: {error}; make it readable, or name another file") from None
    try:
        data: t.Mapping[str, str] = api.get(CONFIG_MAPS, source.namespace, source.name).data or {}
    except NotFoundError:
        raise OptionError(f"{OPTION}: there is no ConfigMap {source.namespace}/{source.name}; correct its name") from None
    if source.key not in data:
        have = ", ".join(sorted(data)) or "none"
        raise OptionError(f"{OPTION}: ConfigMap {source.namespace}/{source.name} has no key {source.key}; its keys are: {have}")
    return data[source.key].encode()


def _profiles_in(content: bytes, place: str) -> dict[str, SchedulerProfile]:
    # Most runs have no configuration to read.
    from ...kube.client.config.go_yaml import YamlTextError, compose
    from ...scheduler_config.problem import SchedulerConfigError
    from ...scheduler_config.profiles import profiles_of

    try:
        return profiles_of(compose(content.decode("utf-8"))[1], place)
    except UnicodeDecodeError:
        raise OptionError(f"{OPTION}: {place} cannot be used: it is not a text in UTF-8; correct it, or name another one") from None
    except YamlTextError as error:
        raise OptionError(f"{OPTION}: {place} cannot be used: {error}; correct it, or name another one") from None
    except SchedulerConfigError as error:
        raise OptionError(f"{OPTION}: {place} cannot be used, because kube-scheduler would refuse it: {error}") from None
