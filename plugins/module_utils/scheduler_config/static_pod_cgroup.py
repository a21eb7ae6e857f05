# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The lines of ``/proc/PID/cgroup`` of a process in a container of a static pod.

A process can choose its own name and command line, and a container may make cgroups below its own one. Only root and the kubelet make the
cgroup of a pod at its place below the root. So a line is compared from its beginning, and by whole components.
"""

from __future__ import annotations

import re
import typing as t

ROOTS = ((), ("kubelet",))
"""The ``cgroupRoot`` of kubelets: the root itself, and the one that kind sets."""
QUALITIES_OF_SERVICE = (("burstable",), ("besteffort",), ())
"""The cgroups of the quality of service. A guaranteed pod has none."""


def lines_of_pod(uid: str) -> str:
    """Return a regular expression for whole lines, with the cgroup drivers of the kubelet and with both versions of cgroups.

    Without a UID it matches no line.
    """
    if not re.fullmatch("[0-9a-z-]+", uid):
        return "no-such-cgroup"
    parts = [(*root, "kubepods", *quality, f"pod{uid}") for root in ROOTS for quality in QUALITIES_OF_SERVICE]
    folders = [folder for one in parts for folder in ("/".join(one), _slices(one))]
    return f"[0-9]+:[^:]*:/({'|'.join(folder.replace('.', '[.]') for folder in folders)})/.+"


def _slices(parts: t.Iterable[str]) -> str:
    """Return the folder that systemd makes of a slice: each slice has the name of its parent at the beginning of its own."""
    names: list[str] = []
    for part in parts:
        names.append("-".join([*names[-1:], part.replace("-", "_")]))
    return "/".join(f"{name}.slice" for name in names)
