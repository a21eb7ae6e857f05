# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The endpoints for people, probes and Prometheus."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from urllib.parse import parse_qs

from prometheus_client import CollectorRegistry

from .....plugins.module_utils.model.codec import encode_json
from ....common.health import Health
from ....common.http.messages import Response, metrics_response, probe_response
from ...engine.engine import Engine
from ...engine.explanation import IN_TREE_WEIGHTS, explain_pod, explain_profile
from ...engine.recent_pods import RecentPod, RecentPods
from ...reload_faults import ReloadFaults
from .explain_page import explain_page, refusal_page
from .status_page import error_parts, fault_parts, faults_as_json, faults_text, status_page

JSON, HTML = "application/json", "text/html; charset=utf-8"
# The pages have no script, and no other site may show them in a frame.
PAGE_HEADERS = (
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
)

NO_POD = "the address names no pod"
NOT_ASKED = "the scheduler has not asked about this pod among its last 1,000 pods, or the schedulerName of the pod is no profile of FILE"
WEIGHT_FORM = "the weight of the extender in the scheduler's configuration is expected, a whole number from 1 to 999999."
MAX_SHOWN = 60
"""Characters of a wrong value in an error text."""

PAGES, SCRAPES = "pages", "scrapes"
"""The kinds of slow answers. Each kind has a thread."""

PageHandler = Callable[[bytes, Mapping[bytes, bytes]], Response]
"""Receives the query and the headers of a request."""


class StatusApi:
    """Answers requests of people, probes and Prometheus. ``version``: the fields of /version."""

    def __init__(
        self,
        engine: Engine,
        recent: RecentPods,
        registry: CollectorRegistry,
        health: Health,
        faults: ReloadFaults,
        version: Mapping[str, str],
    ) -> None:
        self._engine, self._recent, self._registry, self._health, self._faults = engine, recent, registry, health, faults
        self._version = encode_json(dict(version))
        self._handlers: dict[str, PageHandler] = {
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/metrics": self._metrics,
            "/version": lambda _query, _headers: Response(200, JSON, self._version),
            "/explain": self._explain,
            "/status": self._status,
            "/": self._status,
        }

    @property
    def paths(self) -> list[str]:
        """Return the paths."""
        return list(self._handlers)

    def handler(self, path: str) -> PageHandler | None:
        """Return the handler of a path, or None."""
        return self._handlers.get(path)

    def slow_kind(self, path: str) -> str | None:
        """Return PAGES or SCRAPES if the answer needs a calculation over all nodes, and None otherwise."""
        if path in ("/healthz", "/readyz", "/version"):
            return None
        return SCRAPES if path == "/metrics" else PAGES

    def _healthz(self, _query: bytes, _headers: Mapping[bytes, bytes]) -> Response:
        return probe_response(self._health.unhealthy_reason)

    def _readyz(self, _query: bytes, _headers: Mapping[bytes, bytes]) -> Response:
        neutral = [name for name, state in self._engine.current.states.items() if state.is_neutral]
        notes = [f"no value is known for the profiles {', '.join(neutral)}: their nodes are equal"] if neutral else []
        if self._faults.current:
            notes.append(faults_text(self._faults.current))
        return probe_response(self._health.unready_reason, f"ok, but {'; '.join(notes)}" if notes else "ok")

    def _metrics(self, query: bytes, headers: Mapping[bytes, bytes]) -> Response:
        return metrics_response(self._registry, query, headers)

    def _explain(self, query: bytes, headers: Mapping[bytes, bytes]) -> Response:
        namespace, slash, name = _parameter(query, "pod").partition("/")
        if not slash:
            namespace, name = "default", namespace
        title, as_page = f"Pod {namespace}/{name}" if name else "Pods", _wants_page(query, headers)
        weight = _weight(query)
        if weight is None:
            return self._refused(400, title, f"weight is {_parameter(query, 'weight')[:MAX_SHOWN]!r}: {WEIGHT_FORM}", as_page=as_page)
        pod = self._recent.find(namespace, name)
        rows = explain_pod(self._engine, pod, weight) if pod is not None else None
        if pod is None or rows is None:
            profiles = ", ".join(self._engine.current.states)
            text = f"{NOT_ASKED if name else NO_POD}: use /explain?pod=NAMESPACE/NAME. The profiles of FILE are {profiles}."
            return self._refused(404, title, text, as_page=as_page)
        view = self._engine.current.view
        if as_page:
            page = explain_page(view.cluster.line, pod, rows, [*self._fault_parts(), *error_parts(view)])
            return Response(200, HTML, page, PAGE_HEADERS)
        about = {"cluster": view.cluster.fields(), "pod": _pod(pod)}
        values = {**about, **asdict(rows), "errors": dict(view.errors), "in_tree_weights": IN_TREE_WEIGHTS}
        return Response(200, JSON, encode_json(values))

    def _status(self, query: bytes, headers: Mapping[bytes, bytes]) -> Response:
        current = self._engine.current
        profiles = [explain_profile(state) for state in current.states.values()]
        if _wants_page(query, headers):
            page = status_page(current.view, current.nodes.views, profiles, self._recent.newest(20), self._fault_parts())
            return Response(200, HTML, page, PAGE_HEADERS)
        recent = [_pod(pod) for pod in self._recent.newest(20)]
        values = {
            "cluster": current.view.cluster.fields(),
            "faults": faults_as_json(self._faults.current),
            "profiles": [asdict(rows) for rows in profiles],
            "recent": recent,
            "errors": dict(current.view.errors),
            "unmapped_series": current.view.unmapped_count,
        }
        return Response(200, JSON, encode_json(values))

    def _refused(self, status: int, title: str, text: str, *, as_page: bool) -> Response:
        """Return an error with the pods that can be explained."""
        known = self._recent.newest(50)
        if as_page:
            return Response(status, HTML, refusal_page(title, text, known), PAGE_HEADERS)
        return Response(status, JSON, encode_json({"error": text, "recent": [f"{one.namespace}/{one.name}" for one in known]}))

    def _fault_parts(self) -> list[str]:
        return fault_parts(self._faults.current, self._faults.clock())


def _pod(pod: RecentPod) -> dict[str, t.Any]:
    asked_at = datetime.fromtimestamp(pod.asked_at_s, UTC).isoformat(timespec="milliseconds")
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "scheduler_name": pod.scheduler_name,
        "nodes_asked": pod.nodes,
        "asked_at": asked_at,
    }


def _parameter(query: bytes, name: str) -> str:
    return parse_qs(query.decode("latin-1"), errors="replace").get(name, [""])[0]


def _weight(query: bytes) -> int | None:
    """Return the weight of the extender in the configuration of the scheduler, 1 if it is not given, and None if it cannot be used."""
    text = _parameter(query, "weight") or "1"
    return int(text) if re.fullmatch(r"[0-9]{1,6}", text) and int(text) else None


def _wants_page(query: bytes, headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a browser asks. ``format=json`` and ``format=html`` have precedence."""
    wanted = _parameter(query, "format")
    return wanted == "html" or (wanted != "json" and b"text/html" in headers.get(b"accept", b""))
