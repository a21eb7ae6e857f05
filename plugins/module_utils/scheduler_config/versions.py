# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The API versions of kubescheduler.config.k8s.io that each Kubernetes version reads (kubernetes/kube-scheduler, folders ``config``)."""

from __future__ import annotations

import re
import typing as t

from .plugin_tables import NEWEST, OLDEST
from .problem import SchedulerConfigError

GROUP = "kubescheduler.config.k8s.io"
KIND = "KubeSchedulerConfiguration"
SERVED = {"v1beta2": (22, 27), "v1beta3": (23, 28), "v1": (25, None)}
"""For each API version, the first and the last minor version of Kubernetes 1 that reads it. The newest one is last."""
OLDEST_MINOR = 22

_VERSION = re.compile(r"v?1\.([0-9]{1,3})(?:\.[0-9]+)?(?:[-+].*)?")


class ConfigTarget(t.NamedTuple):
    """The wanted API version, and the minor version of Kubernetes whose tables apply. None: any version that reads the API version."""

    api_version: str
    minor: t.Optional[int]

    @property
    def has_tables(self) -> bool:
        """Return whether the plugins and fields of the version are known. For older versions they are not."""
        first, last = self.minors
        return OLDEST <= first <= last

    @property
    def is_after_tables(self) -> bool:
        """Return whether the Kubernetes version is newer than the tables, so that it can have more plugins and fields."""
        return self.minor is not None and self.minor > NEWEST

    @property
    def minors(self) -> tuple[int, int]:
        """Return the range of minor versions whose entries apply. For a version after the tables this is their newest version."""
        if self.minor is not None:
            return (min(self.minor, NEWEST),) * 2
        first, last = SERVED[self.api_version]
        return max(first, OLDEST), NEWEST if last is None else min(last, NEWEST)

    def is_since(self, api_version: str) -> bool:
        """Return whether the API version is this one or a newer one."""
        order = list(SERVED)
        return order.index(self.api_version) >= order.index(api_version)

    def has(self, span: tuple[int, int]) -> bool:
        """Return whether an entry of the tables with this first and last minor version applies."""
        first, last = self.minors
        return span[0] <= last and first <= span[1]


def full_name(api_version: str) -> str:
    """Return the value of the field apiVersion."""
    return f"{GROUP}/{api_version}"


def short_name(value: t.Any) -> str:
    """Return the API version of a value of the field apiVersion. Raise SchedulerConfigError if no supported Kubernetes version reads it."""
    text = value if isinstance(value, str) else ""
    group, _slash, version = text.rpartition("/")
    if group == GROUP and version in SERVED:
        return version
    raise SchedulerConfigError(
        f"apiVersion: {value!r} is not an API version that this module reads; use one of {', '.join(map(full_name, SERVED))}"
    )


def minor_of(kubernetes_version: str) -> int:
    """Return the minor version of a text such as ``1.36`` or ``v1.36.3``. Raise SchedulerConfigError."""
    match = _VERSION.fullmatch(kubernetes_version.strip())
    if match is None:
        raise SchedulerConfigError(f"kubernetes_version: {kubernetes_version!r} is not a version; write it as 1.36 or v1.36.3")
    minor = int(match[1])
    if minor < OLDEST_MINOR:
        raise SchedulerConfigError(f"kubernetes_version: {kubernetes_version} is too old; the oldest supported version is 1.{OLDEST_MINOR}")
    return minor


def served_by(minor: int) -> list[str]:
    """Return the API versions that a Kubernetes version reads, the newest one last."""
    return [version for version, (first, last) in SERVED.items() if first <= minor and (last is None or minor <= last)]


def target_of(kubernetes_version: t.Optional[str], api_version: t.Optional[str]) -> ConfigTarget:
    """Return the target for the two options, at least one of which is given. Raise SchedulerConfigError."""
    given = api_version or ""
    is_short = isinstance(given, str) and "/" not in given
    short = short_name(full_name(given) if is_short else given) if given else ""
    if not kubernetes_version:
        return ConfigTarget(short, None)
    minor = minor_of(kubernetes_version)
    served = served_by(minor)
    if short and short not in served:
        raise SchedulerConfigError(
            f"api_version: Kubernetes 1.{minor} does not read {full_name(short)}; use {' or '.join(served)}, or leave api_version out"
        )
    return ConfigTarget(short or served[-1], minor)
