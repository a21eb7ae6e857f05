# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The mistakes in the variables of the role node_exporter."""

from __future__ import annotations

import json
import re
import typing as t
from collections.abc import Iterator, Mapping

VERSIONS = {
    "package": (r"([0-9][0-9A-Za-z.+:~-]*)?\Z", "a version of the package, such as 1.9 or 1.9.0-1"),
    "archive": (r"[0-9]+[.][0-9]+[.][0-9]+(-[0-9A-Za-z.]+)?\Z", "the version of the archive in full and without v, such as 1.11.1"),
}
OLD = r"0[.]|1[.][0-4][.]"
USER = (r"[A-Za-z_][A-Za-z0-9_.-]*\Z", "be a name of letters, digits, _, . and -")
PATH = "begin with / and have no blanks"
FORMS = {
    "system_user": USER,
    "system_group": USER,
    **dict.fromkeys(("binary_install_dir", "config_dir", "web_telemetry_path"), (r"/\S*\Z", PATH)),
    "textfile_dir": (r"(/\S*)?\Z", PATH),
}
ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^][:\s]*):([0-9]{1,5})\Z")


def mistakes(variables: Mapping[str, t.Any]) -> list[str]:
    """Return a sentence for each mistake. A password is not shown."""
    values = {name.removeprefix("node_exporter_"): value for name, value in variables.items()}
    parts = (_program_mistakes, _collector_mistakes, _web_mistakes)
    return [f"node_exporter_{text}" for part in parts for text in part(values)]


def _program_mistakes(values: Mapping[str, t.Any]) -> Iterator[str]:
    method, version, checksum = values["method"], str(values["version"] or ""), values["checksum"]
    has_archive = method == "archive" and values["state"] == "present"
    pattern, needed = VERSIONS.get(method, ("", ""))
    if (has_archive or method == "package") and not re.match(pattern, version):
        yield f"version is {version or 'empty'}: it must be {needed}"
    elif has_archive and re.match(OLD, version):
        yield f"version is {version}: it must be 1.5.0 or later, which has the options that the unit uses"
    for one in (list(checksum.values()) if isinstance(checksum, Mapping) else [checksum]) or [""]:
        if has_archive and not re.match(r"sha256:[0-9a-fA-F]{64}\Z", str(one)):
            yield f"checksum is {one or 'empty'}: it must be sha256: and 64 hexadecimal digits. sha256sums.txt of the release has them"
    for name, (form, needed) in FORMS.items():
        if not re.match(form, str(values[name] or "")):
            yield f"{name} is {json.dumps(values[name])}: it must {needed}"
    if values["system_user"] == "root":
        yield "system_user is root: set it to a user without rights, who is created if he does not exist"


def _collector_mistakes(values: Mapping[str, t.Any]) -> Iterator[str]:
    for item in values["enabled_collectors"] or []:
        named = {item: {}} if isinstance(item, str) else item
        if not isinstance(named, Mapping) or [isinstance(options, Mapping) for options in named.values()] != [True]:
            yield f"enabled_collectors has the item {json.dumps(item)}: it must be a name, or one name with a dictionary of its options"
            continue
        ((name, options),) = named.items()
        if name in (values["disabled_collectors"] or []):
            yield f"disabled_collectors has {name}, which node_exporter_enabled_collectors has, too: remove it from one of both"
        elif any(text is None or re.search("[\r\n]", str(text)) for text in _flat([name, list(options.values())])):
            yield f"enabled_collectors has the item {json.dumps(item)}: each option must have a value without a line break"


def _flat(value: t.Any) -> list[t.Any]:
    return [one for entry in value for one in _flat(entry)] if isinstance(value, list) else [value]


def _web_mistakes(values: Mapping[str, t.Any]) -> Iterator[str]:
    for address in _flat([values["web_listen_address"]]) or ["no address"]:
        found = ADDRESS.match(str(address))
        if not found or not 0 < int(found[2]) < 65536:
            yield f"web_listen_address has {address}: it must be IPv4:port, [IPv6]:port or interface:port, with a port from 1 to 65535"
    tls = values["tls_server_config"]
    for key in ("cert_file", "key_file") if tls else ():
        if not str(tls.get(key) or "").startswith("/"):
            yield f"tls_server_config has no {key}: set it to the absolute path of the file on the host"
    for user, password in (values["basic_auth_users"] or {}).items():
        if not str(password or ""):
            yield f"basic_auth_users has no password for {user}: set the password, or its bcrypt hash"
