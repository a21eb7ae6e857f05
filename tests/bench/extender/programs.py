# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Go programs of this measurement: the extender to compare with, and the load generator. They are built once, as those of the lab."""

from __future__ import annotations

from pathlib import Path

from lab.go_build import GIGABYTE, GoModule, Program

FOLDER = Path(__file__).resolve().parents[1]

GO_EXTENDER = GoModule(
    folder=FOLDER / "go_extender",
    programs=(Program("go-extender", "."),),
    stamps={},
    largest="k8s.io/kube-scheduler@v0.36.3",
    cold_build_bytes=1 * GIGABYTE,
)

LOAD_GENERATOR = GoModule(
    folder=FOLDER / "load_generator",
    programs=(Program("load-generator", "."),),
    stamps={},
    # It needs no other modules.
    largest=".",
    cold_build_bytes=1 * GIGABYTE,
)


def build(module: GoModule) -> Path:
    """Return the path of the module's program, which is built if it is missing."""
    return module.ensure(print) / module.programs[0].name
