# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lock of the image agrees with the requirements and with the versions that are tested."""

from __future__ import annotations

from ansible_collections.onprem.kube_scheduling.services.image_context import BUILD_LOCK, LOCK, locked_hashes
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.style.sources import libraries_of
from tools.image_lock import CONSTRAINTS, INPUTS, INSTALLER, LEFT_OUT, MACHINES, PYTHONS, rendered, required


def pins(text: str) -> dict[str, str]:
    lines = (line.split(";")[0].strip(" \\") for line in text.splitlines() if "==" in line and not line.startswith("#"))
    return {canonicalize_name(name): version for name, _sign, version in (line.partition("==") for line in lines)}


def test_each_locked_version_is_the_tested_one() -> None:
    tested = pins(CONSTRAINTS.read_text())
    assert {name: tested.get(name) for name in pins(LOCK.read_text())} == pins(LOCK.read_text()), "run make image-lock"


def test_each_requirement_of_the_programs_is_locked_in_a_version_that_it_allows() -> None:
    locked = pins(LOCK.read_text())
    for line in required():
        requirement = Requirement(line)
        assert locked[canonicalize_name(requirement.name)] in requirement.specifier, line


def test_a_requirement_that_the_image_does_not_have_is_one_of_the_collection() -> None:
    names = {canonicalize_name(Requirement(line).name) for file in INPUTS for line in file.read_text().splitlines() if line[:1].isalpha()}
    assert set(LEFT_OUT) <= names and not set(LEFT_OUT) & set(pins(LOCK.read_text()))


def test_each_library_that_the_programs_import_is_locked_or_left_out_for_a_reason() -> None:
    imported = {canonicalize_name(name) for folder in ("plugins/module_utils", "services") for name in libraries_of(folder)}
    assert imported <= set(pins(LOCK.read_text())) | set(LEFT_OUT)


def test_each_package_has_a_wheel_for_every_python_and_machine() -> None:
    counts = {name: len(hashes) for name, hashes in locked_hashes(LOCK).items()}
    compiled = {name: count for name, count in counts.items() if count > 1}
    assert {"numpy", "msgspec", "uvloop"} <= set(compiled)
    assert set(compiled.values()) == {len(PYTHONS) * len(MACHINES)} and min(counts.values()) == 1


def test_the_installer_is_locked_apart_from_the_image() -> None:
    assert [f"{name}=={version}" for name, version in pins(BUILD_LOCK.read_text()).items()] == [INSTALLER]
    assert "pip" not in locked_hashes(LOCK)


def test_a_lock_has_one_line_for_each_hash() -> None:
    text = rendered("What it is.", "a file", {"b==2": {"y" * 64, "x" * 64}, "a==1": {"z" * 64}})
    assert text.splitlines()[2:] == [
        "a==1 \\",
        f"    --hash=sha256:{'z' * 64}",
        "b==2 \\",
        f"    --hash=sha256:{'x' * 64} \\",
        f"    --hash=sha256:{'y' * 64}",
    ]
