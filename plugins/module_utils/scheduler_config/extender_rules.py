# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rules for extenders (``pkg/scheduler/apis/config/validation/validation.go``, ``pkg/scheduler/extender.go``)."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from ..model.values.shown import shown_value
from ..model.values.validation import is_qualified_name
from .problem import UNSAFE, Problem
from .values import duration_ns, list_of, mapping_of, number_of, text_of

ExtenderFields = Mapping[str, t.Any]

NATIVE_DOMAIN = "kubernetes.io/"


def extender_problems(extenders: Sequence[ExtenderFields]) -> Iterator[Problem]:
    """Yield the problems of all extenders."""
    managed: set[str] = set()
    for number, extender in enumerate(extenders):
        path = f"extenders[{number}]"
        yield from _url_problems(extender.get("urlPrefix"), f"{path}.urlPrefix")
        if text_of(extender.get("prioritizeVerb")) and number_of(extender.get("weight")) <= 0:
            yield Problem(f"{path}.weight", "an extender with prioritizeVerb needs a weight of at least 1", "add the weight")
        if (duration_ns(extender.get("httpTimeout")) or 0) < 0:
            yield Problem(f"{path}.httpTimeout", "every request would fail immediately", "write a positive duration such as 200ms", UNSAFE)
        yield from _tls_problems(mapping_of(extender.get("tlsConfig")), f"{path}.tlsConfig")
        for index, resource in enumerate(map(mapping_of, list_of(extender.get("managedResources")))):
            yield from _resource_problems(resource.get("name"), f"{path}.managedResources[{index}].name", managed)
    binders = [number for number, extender in enumerate(extenders) if text_of(extender.get("bindVerb"))]
    if len(binders) > 1:
        names = " and ".join(f"extenders[{number}]" for number in binders)
        yield Problem("extenders", f"only one extender can have bindVerb, and {names} have it", "remove bindVerb from the others")
    yield from _repeated_urls(extenders)


def ignores_resources(extenders: Sequence[ExtenderFields]) -> bool:
    """Return whether an extender manages a resource that kube-scheduler ignores then."""
    resources = (mapping_of(one) for extender in extenders for one in list_of(extender.get("managedResources")))
    return any(one.get("ignoredByScheduler") is True for one in resources)


def _url_problems(url: t.Any, path: str) -> Iterator[Problem]:
    if not text_of(url):
        yield Problem(path, "it is missing, so the extender cannot be called", "add the URL below which its verbs are", UNSAFE)
        return
    try:
        parts = urlsplit(text_of(url))
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid:
        yield Problem(path, "it is not the URL of a web server", "write a URL such as http://127.0.0.1:8080/scheduler", UNSAFE)


def _tls_problems(tls: Mapping[str, t.Any], path: str) -> Iterator[Problem]:
    if tls.get("insecure") is True and has_authority(tls):
        yield Problem(f"{path}.insecure", "a CA is given, too", "remove insecure, so that the certificate is verified")


def has_authority(tls: Mapping[str, t.Any]) -> bool:
    """Return whether the TLS settings of an extender have a CA."""
    return bool(tls.get("caFile") or tls.get("caData"))


def _resource_problems(name: t.Any, path: str, managed: set[str]) -> Iterator[Problem]:
    text = text_of(name)
    extended = "/" in text and NATIVE_DOMAIN not in text and not text.startswith("requests.")
    if not extended or not is_qualified_name(text) or not is_qualified_name(f"requests.{text}"):
        yield Problem(path, f"{shown_value(name)} is not the name of an extended resource", "write a name such as example.com/gpu")
    if text in managed:
        yield Problem(path, f"the resource {text} is listed twice", "remove it from one of the extenders")
    managed.add(text)


def _repeated_urls(extenders: Sequence[ExtenderFields]) -> Iterator[Problem]:
    urls = [text_of(extender.get("urlPrefix")) for extender in extenders]
    for number, url in enumerate(urls):
        if url and url in urls[:number]:
            first = f"extenders[{urls.index(url)}]"
            yield Problem(
                f"extenders[{number}].urlPrefix", f"{first} has the same URL", "remove one of them, or give each its own URL", UNSAFE
            )
