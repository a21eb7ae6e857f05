# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The mistakes in the variables of the role node_exporter."""

from __future__ import annotations

import json
import re
import typing as t
from collections.abc import Iterator, Mapping

PACKAGE_VERSION = re.compile(r"([0-9][0-9A-Za-z.+:~-]*)?\Z")
ARCHIVE_VERSION = re.compile(r"([0-9]+)[.]([0-9]+)[.][0-9]+(-[0-9A-Za-z.]+)?\Z")
MINIMUM = (1, 5)
SUM = re.compile(r"sha256:[0-9a-fA-F]{64}\Z")
USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^][:\s]*):([0-9]{1,5})\Z")
PATHS = ("binary_install_dir", "config_dir", "textfile_dir", "web_telemetry_path")


def mistakes(variables: Mapping[str, t.Any]) -> list[str]:
    """Return a sentence for each mistake. A password is not shown."""
    values = {name.removeprefix("node_exporter_"): value for name, value in variables.items()}
    parts = (_version_mistakes, _collector_mistakes, _file_mistakes, _web_mistakes)
    return [f"node_exporter_{text}" for part in parts for text in part(values)]


def _version_mistakes(values: Mapping[str, t.Any]) -> Iterator[str]:
    version, checksum = str(values["version"] or ""), values["checksum"]
    if values["method"] == "package" and not PACKAGE_VERSION.match(version):
        yield f"version is {version}: it must be a version of the package, such as 1.9 or 1.9.0-1"
    if values["method"] != "archive" or values["state"] != "present":
        return
    found = ARCHIVE_VERSION.match(version)
    if not version:
        yield "method is archive, and node_exporter_version is empty: set it to the version of the archive, such as 1.11.1"
    elif not found:
        yield f"version is {version}: it must be the version of the archive in full and without v, such as 1.11.1"
    elif (int(found[1]), int(found[2])) < MINIMUM:
        yield f"version is {version}: it must be 1.5.0 or later, which has the options that the unit uses"
    for one in checksum.values() if isinstance(checksum, Mapping) else [checksum]:
        if not SUM.match(str(one)):
            yield f"checksum is {one or 'empty'}: it must be sha256: and 64 hexadecimal digits. sha256sums.txt of the release has them"
    if isinstance(checksum, Mapping) and not checksum:
        yield "checksum is empty: it must have sha256: and 64 hexadecimal digits for each architecture"


def _collector_mistakes(values: Mapping[str, t.Any]) -> Iterator[str]:
    for item in values["enabled_collectors"] or []:
        options = next(iter(item.values()), None) if isinstance(item, Mapping) and len(item) == 1 else {}
        is_one = len(item) == 1 if isinstance(item, Mapping) else isinstance(item, str)
        name = next(iter(item), "") if isinstance(item, Mapping) else item
        if not is_one or not isinstance(options, Mapping):
            shown = json.dumps(item)
            yield f"enabled_collectors has the item {shown}: it must be a name, or one name with a dictionary of its options"
        elif name in (values["disabled_collectors"] or []):
            yield f"disabled_collectors has {name}, which node_exporter_enabled_collectors has, too: remove it from one of both"
        elif any(text is None or re.search("[\r\n]", str(text)) for text in _flat([name, list(options.values())])):
            yield f"enabled_collectors has the item {json.dumps(item)}: each option must have a value without a line break"


def _flat(value: t.Any) -> list[t.Any]:
    return [one for entry in value for one in _flat(entry)] if isinstance(value, list) else [value]


def _file_mistakes(values: Mapping[str, t.Any]) -> Iterator[str]:
    for name in ("system_user", "system_group"):
        if not USER.match(str(values[name] or "")):
            yield f"{name} is {json.dumps(values[name])}: it must be a name of letters, digits, _, . and -"
    if values["system_user"] == "root":
        yield "system_user is root: set it to a user without rights, who is created if he does not exist"
    for name in PATHS:
        if not re.match(r"/\S*\Z", str(values[name])) and not (name == "textfile_dir" and not values[name]):
            yield f"{name} is {values[name]}: it must begin with / and have no blanks"


def _web_mistakes(values: Mapping[str, t.Any]) -> Iterator[str]:
    addresses = _flat([values["web_listen_address"]])
    if not addresses:
        yield "web_listen_address is empty: set it to an address with a port, such as 0.0.0.0:9100"
    for address in addresses:
        found = ADDRESS.match(str(address))
        if not found:
            yield f"web_listen_address has {address}: it must be IPv4:port, [IPv6]:port or interface:port"
        elif not 0 < int(found[2]) < 65536:
            yield f"web_listen_address has {address}: the port must be from 1 to 65535"
    tls = values["tls_server_config"]
    for key in ("cert_file", "key_file") if tls else ():
        if not str(tls.get(key) or "").startswith("/"):
            yield f"tls_server_config has no {key}: set it to the absolute path of the file on the host"
    for user, password in (values["basic_auth_users"] or {}).items():
        if not str(password or ""):
            yield f"basic_auth_users has no password for {user}: set the password, or its bcrypt hash"
