# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A warning of galaxy-importer is a failure, although its exit code is 0."""

from __future__ import annotations

from tools.galaxy_importer import findings

OUTPUT = """\
Importing with galaxy-importer 0.4.44
Loading module k8s_spread_check
WARNING: roles/a/tasks/main.yml:4: fqcn[action-core]: Use FQCN for builtin module actions.
ERROR: Timeout on call to ansible-lint
Importer processing completed successfully
"""


def test_warnings_and_errors_are_findings() -> None:
    found = findings(OUTPUT)
    assert [line.split(":")[0] for line in found] == ["WARNING", "ERROR"]
    assert findings(OUTPUT.replace(found[0], "").replace(found[1], "")) == []
