# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The settings of the filters in a scheduler's configuration (kubernetes ``pkg/scheduler/apis/config/types_pluginargs.go``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..model.api.node import NodeSelector


@dataclass(frozen=True)
class SchedulerProfile:
    """The arguments of a profile's filter plugins; without arguments it is the default profile.

    ``added_affinity``: the required part of NodeAffinity's ``addedAffinity``. ``ignored_resources`` (names) and ``ignored_resource_groups``
    (the part before the slash): extended resources that NodeResourcesFit ignores.
    """

    added_affinity: NodeSelector | None = None
    ignored_resources: frozenset[str] = frozenset()
    ignored_resource_groups: frozenset[str] = frozenset()


DEFAULT_PROFILE = SchedulerProfile()

Profiles = Mapping[str, SchedulerProfile]
"""The profiles of one kube-scheduler, by scheduler name."""

DEFAULT_PROFILES: Profiles = {"default-scheduler": DEFAULT_PROFILE}
