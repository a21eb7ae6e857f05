# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Writes the plugins of kube-scheduler and the fields of its configuration, by Kubernetes version, into the collection.

Run it for a new Kubernetes version: add the version to VERSIONS, then `python -m tools.scheduler_tables`. It reads Go sources, and compiles
nothing. tests/integration/scheduler_config compares the newest version with the program.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tools.errors import exit_with
from tools.go_module_files import GoModuleFiles
from tools.paths import ROOT

VERSIONS = {
    26: "1.26.15",
    27: "1.27.16",
    28: "1.28.15",
    29: "1.29.15",
    30: "1.30.14",
    31: "1.31.4",
    32: "1.32.13",
    33: "1.33.13",
    34: "1.34.4",
    35: "1.35.4",
    36: "1.36.3",
}
"""For each minor version, the patch whose sources are read."""

TARGET = ROOT / "plugins" / "module_utils" / "scheduler_config" / "plugin_tables.py"
PLUGINS = "pkg/scheduler/framework/plugins"
CONFIG = "pkg/scheduler/apis/config"

METHODS = {
    "preEnqueue": ("PreEnqueue",),
    "queueSort": ("Less",),
    "preFilter": ("PreFilter", "PreFilterExtensions"),
    "filter": ("Filter",),
    "postFilter": ("PostFilter",),
    "preScore": ("PreScore",),
    "score": ("Score", "ScoreExtensions"),
    "reserve": ("Reserve", "Unreserve"),
    "permit": ("Permit",),
    "preBind": ("PreBind",),
    "bind": ("Bind",),
    "postBind": ("PostBind",),
    "placementGenerate": ("GeneratePlacements",),
    "placementScore": ("ScorePlacement", "PlacementScoreExtensions"),
}
"""For each extension point, the methods of a plugin that can be enabled there."""

ROOT_STRUCT = "KubeSchedulerConfiguration"
PACKAGES = {
    "corev1": ("k8s.io/api", "core/v1/types.go"),
    "metav1": ("k8s.io/apimachinery", "pkg/apis/meta/v1/types.go"),
    "componentbaseconfigv1alpha1": ("k8s.io/component-base", "config/v1alpha1/types.go"),
}
CONFIG_FILES = ("config/v1/types.go", "config/v1/types_pluginargs.go")
BASIC = {"string", "bool", "int32", "int64", "float32"}


K = TypeVar("K")
V = TypeVar("V")
Span = tuple[int, int]
"""The first and the last minor version to which an entry applies."""


@dataclass
class Release:
    """The tables of one minor version.

    They are the extension points by plugin, the weights by default plugin, the removed plugins, and the types by struct and field.
    """

    points: dict[str, set[str]] = field(default_factory=dict)
    defaults: dict[str, int] = field(default_factory=dict)
    invalid: list[str] = field(default_factory=list)
    fields: dict[str, dict[str, str]] = field(default_factory=dict)


def main() -> int:
    releases = {}
    for minor, version in VERSIONS.items():
        print(f"Kubernetes {version}", flush=True)
        releases[minor] = read_release(minor, version)
    TARGET.write_text(rendered(releases))
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", str(TARGET)], check=True)
    return 0


def read_release(minor: int, version: str) -> Release:
    """Return the tables of one version from its sources."""
    files = GoModuleFiles("k8s.io/kubernetes", f"v{version}")
    gates = default_gates(files.read("pkg/features/kube_features.go"), minor)
    names = dict(re.findall(r'^\s*(\w+)\s*=\s*"(\w+)"', files.read(f"{PLUGINS}/names/names.go"), re.MULTILINE))
    validation = files.read(f"{CONFIG}/validation/validation.go")
    return Release(
        points=dict(plugin_points(files, names)),
        defaults=default_plugins(files.read(f"{CONFIG}/v1/default_plugins.go"), names, gates),
        invalid=re.findall(r'"(\w+)"', validation.partition("var invalidPluginsByVersion")[2].partition("\n}\n")[0]),
        fields=field_types(f"v0.{version.partition('.')[2]}"),
    )


def plugin_points(files: GoModuleFiles, names: Mapping[str, str]) -> Iterator[tuple[str, set[str]]]:
    """Yield each plugin of the registry with its extension points."""
    registry = files.read(f"{PLUGINS}/registry.go")
    folders = dict(re.findall(rf'^\s*\w*\s*"k8s\.io/kubernetes/{PLUGINS}/((\w+))"', registry, re.MULTILINE))
    for package, constant in re.findall(r"^\s*(\w+)\.(\w*Name):", registry, re.MULTILINE):
        paths = (path for path in files.below(f"{PLUGINS}/{folders[package]}") if path.endswith(".go") and not path.endswith("_test.go"))
        source = "\n".join(map(files.read, paths))
        found = re.search(rf'\b{constant}\s*=\s*(?:names\.(\w+)|"(\w+)")', source)
        assert found, f"{package}.{constant}"
        methods = methods_of(source, type_of(source, constant))
        yield names[found[1]] if found[1] else found[2], {point for point, needed in METHODS.items() if methods.issuperset(needed)}


def type_of(source: str, constant: str) -> str:
    """Return the type whose method Name returns the constant, or else a field of the plugin."""
    named = {value: name for name, value in re.findall(r"func \((?:\w+ )?\*?(\w+)\) Name\(\) string \{\s*return ([\w.]+)\s*\}", source)}
    found: str = named.get(constant) or named["pl.name"]
    return found


def methods_of(source: str, name: str) -> set[str]:
    """Return the methods of a type and of the types that it embeds."""
    methods = set(re.findall(rf"func \((?:\w+ )?\*?{name}\) (\w+)\(", source))
    body = re.search(rf"^type {name} struct \{{(.*?)^\}}", source, re.DOTALL | re.MULTILINE)
    for embedded in re.findall(r"^\t\*?(\w+)$", body[1] if body else "", re.MULTILINE):
        methods |= methods_of(source, embedded)
    return methods


def default_gates(source: str, minor: int) -> dict[str, bool]:
    """Return the default of each feature gate, from either of the two forms of kube_features.go."""
    gates = {}
    for name, first, rest in re.findall(r"^\t(?:\w+\.)?(\w+): +\{(.*)$((?:\n\t\t.*)*)", source, re.MULTILINE):
        if "Default:" in first:
            gates[name] = "Default: true" in first
        for major_minor, default in re.findall(r'MustParse\("1\.(\d+)"\), Default: (\w+)', rest):
            if int(major_minor) <= minor:
                gates[name] = default == "true"
    return gates


def default_plugins(source: str, names: Mapping[str, str], gates: Mapping[str, bool]) -> dict[str, int]:
    """Return the weights of the default plugins, 0 without a weight, with those of the feature gates that are on by default."""
    found = dict(_plugins_in(_function(source, "getDefaultPlugins"), names))
    for gate, body in re.findall(r"Enabled\(features\.(\w+)\) \{(.*?)\n\t\}", _function(source, "applyFeatureGates"), re.DOTALL):
        if gates.get(gate):
            called = re.search(r"^\t\t(\w+)\(config\)", body, re.MULTILINE)
            found |= dict(_plugins_in(_function(source, called[1]) if called else body, names))
    return found


def _function(source: str, name: str) -> str:
    return source.partition(f"\nfunc {name}(")[2].partition("\n}\n")[0]


def _plugins_in(body: str, names: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    for name, weight in re.findall(r"\{Name: names\.(\w+)(?:, Weight: \w+\.\w+(?:\[int32\])?\((\d+)\))?\}", body):
        yield names[name], int(weight or 0)


def field_types(version: str) -> dict[str, dict[str, str]]:
    """Return the type of each field of the configuration, by struct. Structs of other packages are included if a field has their type."""
    scheduler = GoModuleFiles("k8s.io/kube-scheduler", version)
    sources = {"": "\n".join(map(scheduler.read, CONFIG_FILES))}
    for package, (module, path) in PACKAGES.items():
        sources[package] = GoModuleFiles(module, version).read(path)
    found: dict[str, dict[str, str]] = {}
    rest = [("", ROOT_STRUCT), *(("", name) for name in re.findall(r"^type (\w+Args) struct", sources[""], re.MULTILINE))]
    while rest:
        package, name = rest.pop()
        if name not in found:
            found[name] = dict(_fields_of(package, name, sources))
            rest += [(_package_of(kind, package), _struct_of(kind)) for kind in found[name].values() if _struct_of(kind)]
            found[name] = {key: re.sub(r"\w+\.", "", kind) for key, kind in found[name].items()}
    return found


def _fields_of(package: str, name: str, sources: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    body = re.search(rf"^type {name} struct \{{(.*?)^\}}", sources[package], re.DOTALL | re.MULTILINE)
    assert body, f"{package}.{name}"
    for kind, key, options in re.findall(r'^\t(?:\w+\s+)?([\w.*\[\]]+)\s+`json:"(\w*)(,[^"]*)?"', body[1], re.MULTILINE):
        if "inline" in options:
            if kind == "metav1.TypeMeta":
                yield from (("apiVersion", "string"), ("kind", "string"))
            else:
                inner, _dot, struct = kind.rpartition(".")
                yield from _fields_of(inner or package, struct, sources)
        else:
            yield key, _kind_of(kind, package, sources)


def _kind_of(kind: str, package: str, sources: Mapping[str, str]) -> str:
    """Return the type as the tables name it: a basic type, ``[]`` and a type, ``map[string]string``, Duration, bytes, raw or a struct."""
    if kind in ("metav1.Duration", "*metav1.Duration"):
        return kind.replace("metav1.", "")
    if kind == "[]byte":
        return "bytes"
    if kind == "runtime.RawExtension":
        return "raw"
    bare = kind.replace("*", "")
    if bare == "map[string]string" or bare.removeprefix("[]") in BASIC:
        return bare
    inner, _dot, name = bare.removeprefix("[]").rpartition(".")
    if re.search(rf"^type {name} string$", sources[inner or package], re.MULTILINE):
        return bare.replace(bare.removeprefix("[]"), "string")
    return bare


def _struct_of(kind: str) -> str:
    name = kind.removeprefix("[]").rpartition(".")[2]
    return "" if name in BASIC | {"bytes", "raw", "map[string]string", "Duration", "*Duration"} else name


def _package_of(kind: str, package: str) -> str:
    return kind.removeprefix("[]").rpartition(".")[0] or package


def rendered(releases: Mapping[int, Release]) -> str:
    """Return the file with the tables. Each entry has the first and the last minor version to which it applies."""
    plugins = _spans(
        {minor: {(name, point): None for name, points in one.points.items() for point in points} for minor, one in releases.items()}
    )
    defaults = _spans({minor: dict(one.defaults) for minor, one in releases.items()})
    invalid = _spans({minor: dict.fromkeys(one.invalid) for minor, one in releases.items()})
    fields = _spans(
        {minor: {(name, key): kind for name, keys in one.fields.items() for key, kind in keys.items()} for minor, one in releases.items()}
    )
    points = list(METHODS)
    lines = [
        "# SPDX-License-Identifier: GPL-3.0-or-later",
        "# Copyright: onprem.kube_scheduling contributors",
        '"""The plugins of kube-scheduler and the fields of its configuration, by Kubernetes version.',
        "",
        "`python -m tools.scheduler_tables` writes this file from the sources of Kubernetes. A pair of numbers is the first and the last",
        "minor version of Kubernetes 1 to which an entry applies.",
        '"""',
        "from __future__ import annotations",
        f"OLDEST, NEWEST = {min(releases)}, {max(releases)}",
        '"""The minor versions of the tables."""',
        f"EXTENSION_POINTS = {tuple(points)!r}",
        "_Span = tuple[int, int]",
        "PLUGINS: dict[str, dict[str, _Span]] = {",
    ]
    for name in sorted({name for name, _point in plugins}):
        own = {point: plugins[name, point][0][1] for point in points if (name, point) in plugins}
        lines.append(f"    {name!r}: {own!r},")
    lines += [
        "}",
        '"""The extension points at which each plugin can be enabled."""',
        "DEFAULT_PLUGINS: dict[str, tuple[tuple[int, _Span], ...]] = {",
    ]
    lines += [f"    {name!r}: {tuple(found)!r}," for name, found in defaults.items()]
    lines += ["}", '"""The weights of the plugins that are enabled by default; 0 is no weight."""', "INVALID_PLUGINS: dict[str, _Span] = {"]
    lines += [f"    {name!r}: {found[0][1]!r}," for name, found in sorted(invalid.items())]
    lines += [
        "}",
        '"""The removed plugins that v1 refuses by name, also in pluginConfig."""',
        "FIELDS: dict[str, dict[str, tuple[str, _Span]]] = {",
    ]
    for name in sorted({name for name, _key in fields}):
        own_fields = {key: (found[-1][0], (found[0][1][0], found[-1][1][1])) for (struct, key), found in fields.items() if struct == name}
        lines.append(f"    {name!r}: {own_fields!r},")
    what = "The fields of each struct of API version v1 with their Go types. ``*Duration`` may be null, ``raw`` is any mapping."
    return "\n".join([*lines, "}", f'"""{what}"""', ""])


def _spans(by_minor: Mapping[int, Mapping[K, V]]) -> dict[K, list[tuple[V, Span]]]:
    """Return for each key its values, each with the first and the last minor version that have it."""
    found: dict[K, list[tuple[V, Span]]] = {}
    for minor, entries in by_minor.items():
        for key, value in entries.items():
            spans = found.setdefault(key, [])
            if spans and spans[-1][0] == value and spans[-1][1][1] == minor - 1:
                spans[-1] = (value, (spans[-1][1][0], minor))
            else:
                spans.append((value, (minor, minor)))
    return found


if __name__ == "__main__":
    exit_with(main, "scheduler_tables")
