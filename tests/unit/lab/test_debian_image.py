# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The name of an image changes with everything that decides its content."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.debian_image import DebianImage

IMAGE = DebianImage(name="lab/host:debian", release="trixie", packages=("systemd",), unneeded=("var/log/*",))


@pytest.mark.parametrize(
    "change",
    [
        {"release": "bookworm"},
        {"packages": ("systemd", "dbus")},
        {"unneeded": ()},
        {"emptied": ("etc/machine-id",)},
        {"masked": ("getty.service",)},
        {"changes": ("CMD /sbin/init",)},
    ],
)
def test_another_content_has_another_name(change: dict[str, str]) -> None:
    assert replace(IMAGE, **change).reference != IMAGE.reference
    assert IMAGE.reference.startswith("lab/host:debian-trixie-")
