# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The generator of the plugin tables reads the sources of Kubernetes, and single files of an archive on a server."""

from __future__ import annotations

import io
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config import plugin_tables

from tools import go_module_files
from tools.errors import ToolError
from tools.go_module_files import GoModuleFiles
from tools.scheduler_tables import VERSIONS, Release, default_gates, default_plugins, methods_of, rendered, type_of

PLUGIN = """
const Name = names.Example
type scorer struct {
	size int
}
func (s *scorer) Score(x int) int { return 1 }
func (s scorer) ScoreExtensions() int { return 1 }
type Example struct {
	handle int
	*scorer
}
func (pl *Example) Name() string {
	return Name
}
func (*Example) Filter(x int) int { return 1 }
"""

DEFAULTS = """
func getDefaultPlugins() *v1.Plugins {
	return x{
				{Name: names.A},
				{Name: names.B, Weight: ptr.To[int32](3)},
				{Name: names.C, Weight: pointer.Int32(2)},
	}
}

func applyFeatureGates(config *v1.Plugins) {
	if utilfeature.DefaultFeatureGate.Enabled(features.On) {
		config.MultiPoint.Enabled = append(config.MultiPoint.Enabled, v1.Plugin{Name: names.D})
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.Called) {
		applyCalled(config)
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.Off) {
		config.MultiPoint.Enabled = append(config.MultiPoint.Enabled, v1.Plugin{Name: names.F})
	}
}

func applyCalled(config *v1.Plugins) {
	extended = append(extended, v1.Plugin{Name: names.E, Weight: ptr.To[int32](2)})
}
"""


def test_the_methods_of_a_plugin_include_those_of_embedded_types() -> None:
    assert type_of(PLUGIN, "Name") == "Example"
    assert methods_of(PLUGIN, "Example") == {"Name", "Filter", "Score", "ScoreExtensions"}


def test_the_default_of_a_gate_is_that_of_the_minor_version() -> None:
    old = "\tOld: {Default: true, PreRelease: featuregate.Beta},\n\tOther: {Default: false, PreRelease: featuregate.Alpha},\n"
    new = (
        '\tNew: {\n\t\t{Version: version.MustParse("1.30"), Default: false, PreRelease: featuregate.Alpha},\n'
        '\t\t{Version: version.MustParse("1.34"), Default: true, PreRelease: featuregate.GA},\n\t},\n'
    )
    assert default_gates(old, 28) == {"Old": True, "Other": False}
    assert [default_gates(new, minor) for minor in (29, 31, 34, 36)] == [{}, {"New": False}, {"New": True}, {"New": True}]


def test_default_plugins_include_those_of_gates_that_are_on() -> None:
    names = {letter: f"Plugin{letter}" for letter in "ABCDEF"}
    found = default_plugins(DEFAULTS, names, {"On": True, "Called": True, "Off": False})
    assert found == {"PluginA": 0, "PluginB": 3, "PluginC": 2, "PluginD": 0, "PluginE": 2}


def test_an_entry_has_the_first_and_the_last_version() -> None:
    releases = {
        30: Release(points={"A": {"score"}}, defaults={"A": 1}, fields={"S": {"x": "int32"}}),
        31: Release(points={"A": {"score", "filter"}}, defaults={"A": 2}, invalid=["B"], fields={"S": {"x": "int32", "y": "bool"}}),
    }
    made: dict[str, object] = {}
    exec(rendered(releases), made)
    assert (made["OLDEST"], made["NEWEST"]) == (30, 31)
    assert made["PLUGINS"] == {"A": {"filter": (31, 31), "score": (30, 31)}}
    assert made["DEFAULT_PLUGINS"] == {"A": ((1, (30, 30)), (2, (31, 31)))}
    assert made["INVALID_PLUGINS"] == {"B": (31, 31)}
    assert made["FIELDS"] == {"S": {"x": ("int32", (30, 31)), "y": ("bool", (31, 31))}}


def test_the_committed_tables_are_those_of_the_listed_versions() -> None:
    assert (min(VERSIONS), max(VERSIONS)) == (plugin_tables.OLDEST, plugin_tables.NEWEST)
    assert {"NodeResourcesFit", "PrioritySort", "SelectorSpread"} <= set(plugin_tables.PLUGINS)


@pytest.fixture
def proxy() -> Iterator[tuple[str, list[str]]]:
    """A module proxy that serves one archive by ranges, and the ranges that were requested."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as written:
        written.writestr("example.com/m@v1.0.0/a/one.go", "package a")
        written.writestr("example.com/m@v1.0.0/a/b/two.go", "package b")
        written.writestr("example.com/m@v1.0.0/large", bytes(3 * go_module_files.BLOCK_BYTES))
    data, ranges = archive.getvalue(), []

    class Server(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()

        def do_GET(self) -> None:
            ranges.append(self.headers["Range"])
            start, end = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
            self.send_response(206)
            self.end_headers()
            self.wfile.write(data[start : end + 1])

        def log_message(self, *_arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", ranges
    server.shutdown()
    server.server_close()


def test_single_files_of_an_archive_are_requested(proxy: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    values = {"GOMODCACHE": str(tmp_path), "GOPROXY": f"{proxy[0]},direct"}
    monkeypatch.setattr(go_module_files, "_go_env", values.__getitem__)
    files = GoModuleFiles("example.com/m", "v1.0.0")
    assert files.read("a/one.go") == "package a" and files.read("a/none.go") == ""
    assert list(files.below("a")) == ["a/one.go"]
    assert 0 < len(proxy[1]) < 6


def test_files_of_the_module_cache_are_read_without_a_proxy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(go_module_files, "_go_env", {"GOMODCACHE": str(tmp_path), "GOPROXY": "off"}.__getitem__)
    folder = tmp_path / "example.com" / "m@v1.0.0" / "a"
    folder.mkdir(parents=True)
    (folder / "one.go").write_text("package a")
    files = GoModuleFiles("example.com/m", "v1.0.0")
    assert files.read("a/one.go") == "package a" and files.read("none") == "" and list(files.below("a")) == ["a/one.go"]
    with pytest.raises(ToolError, match="GOPROXY begins with 'off': set it"):
        GoModuleFiles("example.com/other", "v1.0.0")
