# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A failed test is repeated once, alone. If it passes, it does not fail the run, and the summary names it FLAKY.

Nothing is repeated if the run fails in any case: if more than three tests failed, or one that is never repeated. These are tests whose path
or name has one of the words in NEVER, and those with the marker `never_repeated`. An error after a test is not repeated either, because it
may be about what other tests have left, nor is a test whose worker has crashed. `-p no:repeats` switches all of this off.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Generator
from typing import Any

import pytest

from lab.locks import locked

NAME = "repeats"
MARKER = "never_repeated"
MOST = 3
# These pass in each run, or there is a defect. A scenario of molecule takes too long.
NEVER = re.compile(r"(?<![a-z])(budget|disruption|hold|held|lease|leader|secret|password|token|login|credential)|^tests/molecule/")


class Repeats:
    """The pytest plugin, in the process that prints the summary."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._path = config.rootpath / "tests" / "output" / "flaky.json"
        self._flaky: list[tuple[pytest.TestReport, str]] = []

    @classmethod
    def register(cls, config: pytest.Config) -> None:
        """Register the plugin, except in a worker of pytest-xdist."""
        if not hasattr(config, "workerinput"):
            config.pluginmanager.register(cls(config), NAME)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Repeat failed tests. The workers have ended by now, and pytest prints its summary afterwards."""
        if session.exitstatus != pytest.ExitCode.TESTS_FAILED or session.shouldfail or session.shouldstop:
            return
        terminal: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        failed: dict[str, list[Any]] = {}
        for report in [*terminal.stats.get("failed", []), *terminal.stats.get("error", [])]:
            failed.setdefault(report.nodeid, []).append(report)
        if reason := _not_repeated_reason(failed):
            terminal.write_line(f"No failed test is repeated, because {reason}.")
            return
        for nodeid, reports in failed.items():
            terminal.write_line(f"{nodeid} failed, and is repeated alone.")
            if output := self._failed_again(nodeid):
                terminal.write_sep("-", f"failed again: {nodeid}")
                terminal.write_line(output)
                continue
            for report in reports:
                terminal.stats["error" if report in terminal.stats.get("error", []) else "failed"].remove(report)
            terminal._add_stats("flaky", reports[:1])
            self._flaky.append((reports[0], _message(reports[0])))
        if len(self._flaky) == len(failed):
            session.exitstatus = pytest.ExitCode.OK
        self._write()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Generator[None, object, object]:
        result = yield
        for report, _ in self._flaky:
            terminalreporter.write_sep("_", f"failed first: {report.nodeid}")
            for text in (report.longreprtext, *(f"--- {title}\n{content}" for title, content in report.sections)):
                terminalreporter.write_line(text)
        # Also those of the earlier checks of `make test`, whose output is far above.
        for known in self._known():
            terminalreporter.write_line(f"FLAKY {known['nodeid']} - {known['failure']}", yellow=True)
        return result

    def _failed_again(self, nodeid: str) -> str:
        """Run the test alone in a process with the same options. Return the output, or an empty text if the test passed."""
        config = self._config
        options = [word for word in config.invocation_params.args if word not in config.option.file_or_dir]
        alone = ["-n0"] if config.pluginmanager.hasplugin("xdist") else []
        command = [sys.executable, "-m", "pytest", *options, *alone, "--junitxml=", "-p", f"no:{NAME}", f"{config.rootpath}/{nodeid}"]
        done = subprocess.run(
            command, cwd=config.invocation_params.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        output = done.stdout.decode(errors="replace").rstrip()
        # Without this text the test was skipped.
        passed = done.returncode == 0 and re.search(r"\b1 passed\b", output.rpartition("\n")[2])
        return "" if passed else output or f"exit code {done.returncode}, no output"

    def _write(self) -> None:
        """Add the flaky tests to those that earlier runs have written."""
        if not self._flaky:
            return
        with locked(self._path.with_suffix(".lock")):
            found = [{"nodeid": report.nodeid, "failure": text, "seconds": round(report.duration, 1)} for report, text in self._flaky]
            self._path.write_text(json.dumps(self._known() + found, indent=2) + "\n")

    def _known(self) -> list[dict[str, Any]]:
        """Return the flaky tests since the beginning of `make test`."""
        known: list[dict[str, Any]] = json.loads(self._path.read_text()) if self._path.exists() else []
        return known


def _not_repeated_reason(failed: dict[str, list[Any]]) -> str:
    if len(failed) > MOST:
        return f"{len(failed)} tests failed, and at most {MOST} are repeated"
    for nodeid, reports in failed.items():
        if not all(isinstance(report, pytest.TestReport) for report in reports):
            return f"{nodeid} could not be read"
        if reports[0].when == "teardown":
            return f"the error after {nodeid} may be about what other tests have left"
        if reports[0].when not in ("setup", "call"):
            return f"the worker that ran {nodeid} has crashed"
        if MARKER in reports[0].keywords or NEVER.search(nodeid.partition("[")[0].lower()):
            return f"{nodeid} is never repeated"
    return ""


def _message(report: pytest.TestReport) -> str:
    """Return the last line of the traceback, the exception with the first line of its message."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text: str = crash.message if crash else report.longreprtext
    return text.strip().partition("\n")[0]
