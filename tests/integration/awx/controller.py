# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An HTTP server with the part of AWX's API that the modules of awx.awx use.

No AWX can be installed in the tests. The server keeps the objects, checks the token, refuses what the rules of AWX refuse, hides secrets,
and records every request.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import Any, ClassVar, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from lab.http_handler import QuietHandler
from tests.integration.awx.rules import Json, answer_mistakes, is_playbook, schedule_mistakes, survey_mistakes
from tools.paths import ROOT

TOKEN = "secret-token"
USER, PASSWORD = "admin", "secret-password"
HIDDEN = "$encrypted$"
API = "/api/v2/"
BEARER_TYPE = "OpenShift or Kubernetes API Bearer Token"

JOB_TEMPLATE = {
    **dict.fromkeys(("description", "limit", "job_tags", "skip_tags", "start_at_task", "scm_branch", "host_config_key", "extra_vars"), ""),
    **dict.fromkeys(("forks", "verbosity", "timeout"), 0),
    **dict.fromkeys(("inventory", "project", "execution_environment"), None),
    **dict.fromkeys(
        (
            "survey_enabled",
            "become_enabled",
            "diff_mode",
            "allow_simultaneous",
            "use_fact_cache",
            "force_handlers",
            "prevent_instance_group_fallback",
        ),
        False,
    ),
    **{
        f"ask_{name}_on_launch": False
        for name in (
            *("scm_branch", "diff_mode", "variables", "limit", "tags", "skip_tags", "job_type", "verbosity", "inventory", "credential"),
            *("execution_environment", "forks", "instance_groups", "job_slice_count", "labels", "timeout"),
        )
    },
    "job_type": "run",
    "playbook": "",
    "job_slice_count": 1,
}
WORKFLOW = {
    **dict.fromkeys(("description", "limit", "job_tags", "skip_tags", "scm_branch", "extra_vars"), ""),
    **dict.fromkeys(("survey_enabled", "allow_simultaneous"), False),
    **{f"ask_{name}_on_launch": False for name in ("inventory", "scm_branch", "limit", "variables", "labels", "tags", "skip_tags")},
    "inventory": None,
    "organization": None,
}
NAMED: Json = {"description": "", "organization": None}
DEFAULTS: dict[str, Json] = {
    "organizations": {"description": ""},
    "credential_types": {"description": "", "kind": "cloud", "inputs": {}, "injectors": {}, "managed": False},
    "credentials": {**NAMED, "inputs": {}, "credential_type": None},
    "execution_environments": {**NAMED, "image": "", "credential": None, "pull": ""},
    "projects": {
        **NAMED,
        **dict.fromkeys(("scm_type", "scm_url", "scm_branch", "scm_refspec"), ""),
        **dict.fromkeys(("scm_update_on_launch", "scm_clean", "allow_override"), False),
        "credential": None,
        "default_environment": None,
        "timeout": 0,
        "scm_update_cache_timeout": 0,
        "scm_revision": "",
    },
    "inventories": {**NAMED, "kind": "", "host_filter": None, "variables": "", "prevent_instance_group_fallback": False},
    "hosts": {"description": "", "inventory": None, "enabled": True, "variables": ""},
    "groups": {"description": "", "inventory": None, "variables": ""},
    "notification_templates": {**NAMED, "notification_type": "", "notification_configuration": {}, "messages": None},
    "job_templates": {**JOB_TEMPLATE, "organization": None},
    "workflow_job_templates": WORKFLOW,
    "workflow_job_template_nodes": {
        **dict.fromkeys(("unified_job_template", "inventory", "limit", "job_type", "job_tags", "skip_tags", "workflow_job_template")),
        "identifier": "",
        "extra_data": {},
        "all_parents_must_converge": False,
    },
    "workflow_approval_templates": {"description": "", "timeout": 0},
    "schedules": {"description": "", "unified_job_template": None, "rrule": "", "enabled": True, "extra_data": {}, "inventory": None},
}
"""The fields of the objects that the API returns, with their defaults. Other fields of a request have no effect."""

EVENTS = ("started", "success", "error")
REFERENCES = {
    "organization": ("organizations",),
    "inventory": ("inventories",),
    "project": ("projects",),
    "execution_environment": ("execution_environments",),
    "default_environment": ("execution_environments",),
    "credential": ("credentials",),
    "credential_type": ("credential_types",),
    "workflow_job_template": ("workflow_job_templates",),
    "unified_job_template": ("job_templates", "workflow_job_templates", "workflow_approval_templates"),
}
RELATIONS = {
    "projects": (NOTIFIED := {f"notification_templates_{event}" for event in EVENTS}),
    "inventories": {"instance_groups", "input_inventories"},
    "groups": {"hosts", "children"},
    "job_templates": {
        "survey_spec",
        "credentials",
        "labels",
        "instance_groups",
        *NOTIFIED,
    },
    "workflow_job_templates": {"survey_spec", "labels", "notification_templates_approvals", *NOTIFIED},
    "workflow_job_template_nodes": {"success_nodes", "failure_nodes", "always_nodes", "credentials", "create_approval_template"},
    "schedules": {"credentials", "labels", "instance_groups"},
}
"""The paths below an object that the API has."""
UNIFIED = ("job_templates", "workflow_job_templates", "projects")
UNIQUE = ("name", "organization", "inventory", "identifier", "workflow_job_template", "unified_job_template", "credential_type")


class Request(NamedTuple):
    """A request to the server."""

    method: str
    path: str
    body: Any


class Refused(Exception):
    """The answer to a request that is refused."""

    def __init__(self, status: int, body: Json) -> None:
        super().__init__(body)
        self.status, self.body = status, body


class Controller:
    """The objects by their kind and name, and the requests."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[Request] = []
        self.objects: dict[str, dict[int, Json]] = {kind: {} for kind in DEFAULTS}
        self.surveys: dict[int, Json] = {}
        self.links: dict[tuple[int, str], list[int]] = {}
        self._pending_updates: set[int] = set()
        self._lock = threading.Lock()
        self._last_id = 0
        self._add("organizations", {"name": "Default"})
        fields = [
            {"id": name, "secret": name in ("bearer_token", "ssl_ca_cert")}
            for name in ("host", "bearer_token", "verify_ssl", "ssl_ca_cert")
        ]
        self._add("credential_types", {"name": BEARER_TYPE, "kind": "kubernetes", "managed": True, "inputs": {"fields": fields}})
        machine = self._add("credential_types", {"name": "Machine", "kind": "ssh", "managed": True})
        self._add("credentials", {"name": "nodes", "credential_type": machine, "organization": 1})

    def named(self, kind: str, name: str) -> Json:
        """Return the object with this name, with its secrets."""
        (found,) = (item for item in self.objects[kind].values() if item.get("name", item.get("identifier")) == name)
        return found

    def linked(self, item: Mapping[str, Any], relation: str, kind: str) -> list[Json]:
        """Return the objects that are associated with one."""
        return [self.objects[kind][number] for number in self.links.get((item["id"], relation), [])]

    def writes(self) -> list[Request]:
        """Return the requests that change something."""
        return [request for request in self.requests if request.method != "GET" and "/tokens/" not in request.path]

    def handle(self, method: str, url: str, body: Any) -> tuple[int, Any]:
        """Return the status and the body of the answer."""
        parts = urlsplit(url)
        with self._lock:
            self.requests.append(Request(method, parts.path, body))
            try:
                return self._route(method, parts.path.removeprefix(API).strip("/").split("/"), dict(parse_qsl(parts.query)), body)
            except Refused as refused:
                return refused.status, refused.body

    def _route(self, method: str, path: list[str], query: Mapping[str, str], body: Any) -> tuple[int, Any]:
        kind, number, relation = path[0], int(path[1]) if len(path) > 1 else 0, path[2] if len(path) > 2 else ""
        if kind == "tokens":
            return (201, {"id": 1, "token": TOKEN}) if method == "POST" else (204, None)
        if kind == "project_updates":
            # The first read finds it running.
            status = "running" if number in self._pending_updates else "successful"
            self._pending_updates.discard(number)
            return 200, {"id": number, "status": status, "finished": None}
        if relation:
            return self._related(method, kind, self._get(kind, number), relation, body)
        if not number:
            if method == "POST":
                return 201, self._shown(kind, self._get(kind, self._add(kind, body)))
            return 200, self._list(kind, query)
        item = self._get(kind, number)
        if method == "PATCH":
            self._write(kind, item, body)
        elif method != "GET":
            raise Refused(405, {"detail": "method"})
        return 200, self._shown(kind, item)

    def _get(self, kind: str, number: int) -> Json:
        if number not in self.objects.get(kind, {}):
            raise Refused(404, {"detail": "not found"})
        return self.objects[kind][number]

    def _list(self, kind: str, query: Mapping[str, str]) -> Json:
        kinds = UNIFIED if kind == "unified_job_templates" else (kind,)
        found = [
            shown
            for of_kind in kinds
            if of_kind in self.objects
            for item in self.objects[of_kind].values()
            if _matches(shown := self._shown(of_kind, item), query)
        ]
        return {"count": len(found), "next": None, "previous": None, "results": found}

    def _add(self, kind: str, body: Json) -> int:
        if kind not in DEFAULTS:
            raise Refused(404, {"detail": "not found"})
        self._last_id += 1
        item = {**DEFAULTS[kind], "id": self._last_id}
        if kind != "workflow_job_template_nodes":
            item["name"] = ""
        self._write(kind, item, {name: value for name, value in body.items() if name in item or name == "managed"})
        same = [name for name in UNIQUE if name in item]
        if any(all(other[name] == item[name] for name in same) for other in self.objects[kind].values()):
            raise Refused(400, {"__all__": [f"{kind} with this {', '.join(same)} already exists"]})
        self.objects[kind][item["id"]] = item
        if kind == "projects":
            self._pending_updates.add(item["id"])
        return self._last_id

    def _write(self, kind: str, item: Json, body: Json) -> None:
        changes = {name: value for name, value in body.items() if name in item and name != "id"}
        for name, value in changes.items():
            if name in REFERENCES and value not in (None, "") and not any(value in self.objects[of] for of in REFERENCES[name]):
                raise Refused(400, {name: [f"Invalid pk {value!r} - object does not exist."]})
        new = {**item, **changes}
        if check := getattr(self, f"_check_{kind}", None):
            check(new)
        item.update(new)

    def _check_job_templates(self, new: Json) -> None:
        project = self.objects["projects"].get(new["project"])
        if project is None or new["inventory"] is None:
            raise Refused(400, {"__all__": ["Job Template must have a project and an inventory"]})
        # The organization is read only in the API.
        new["organization"] = project["organization"]
        if not is_playbook(ROOT / new["playbook"]):
            raise Refused(400, {"playbook": ["Playbook not found for project."]})

    def _check_inventories(self, new: Json) -> None:
        # AWX reads null as an empty text in such fields (ChoiceNullField in awx/api/fields.py).
        new["kind"] = new["kind"] or ""

    def _check_credential_types(self, new: Json) -> None:
        names = {field["id"] for field in new["inputs"].get("fields", [])}
        if set(new["inputs"].get("required", [])) - names:
            raise Refused(400, {"inputs": ["a required field is not in fields"]})

    def _check_credentials(self, new: Json) -> None:
        kind = self.objects["credential_types"][new["credential_type"]]
        unknown = set(new["inputs"]) - {field["id"] for field in kind["inputs"].get("fields", [])}
        if unknown:
            raise Refused(400, {"inputs": [f"unknown fields {unknown}"]})

    def _check_schedules(self, new: Json) -> None:
        new["rrule"] = " ".join(new["rrule"].split())
        mistakes = schedule_mistakes(new["rrule"]) + answer_mistakes(self.surveys.get(new["unified_job_template"], {}), new["extra_data"])
        if mistakes:
            raise Refused(400, {"rrule": mistakes})

    def _related(self, method: str, kind: str, item: Json, relation: str, body: Any) -> tuple[int, Any]:
        if relation not in RELATIONS.get(kind, ()):
            raise Refused(404, {"detail": "not found"})
        if relation == "survey_spec":
            if method == "POST":
                if mistakes := survey_mistakes(body):
                    raise Refused(400, {"error": "; ".join(mistakes)})
                self.surveys[item["id"]] = body
            return 200, self.surveys.get(item["id"], {})
        if relation == "create_approval_template":
            number = self._add("workflow_approval_templates", body)
            item["unified_job_template"] = number
            return 201, self._shown("workflow_approval_templates", self.objects["workflow_approval_templates"][number])
        linked = self.links.setdefault((item["id"], relation), [])
        of_kind = _kind_of(relation)
        if method == "POST":
            if body.get("disassociate"):
                linked.remove(body["id"])
            else:
                self._check_link(item, relation, self._get(of_kind, body["id"]))
                linked.append(body["id"])
            return 204, None
        found = [self._shown(of_kind, self.objects[of_kind][number]) for number in linked]
        return 200, {"count": len(found), "next": None, "previous": None, "results": found}

    def _check_link(self, item: Json, relation: str, other: Json) -> None:
        present = self.linked(item, relation, _kind_of(relation))
        if relation == "credentials" and other["credential_type"] in [credential["credential_type"] for credential in present]:
            raise Refused(400, {"error": "Cannot assign multiple credentials of one type."})

    def _shown(self, kind: str, item: Json) -> Json:
        url = f"{API}{kind}/{item['id']}/"
        related = {name: f"{url}{name}/" for name in ("survey_spec", "credentials", "hosts", "children", "update")}
        if kind == "workflow_job_template_nodes":
            del related["survey_spec"]
            approval = item["unified_job_template"]
            if approval in self.objects["workflow_approval_templates"]:
                related["unified_job_template"] = f"{API}workflow_approval_templates/{approval}/"
        shown = {
            **item,
            "url": url,
            "type": kind.replace("inventories", "inventory").removesuffix("s"),
            "related": related,
            "summary_fields": {},
        }
        if kind == "projects" and item["id"] in self._pending_updates:
            shown["summary_fields"] = {"current_update": {"id": item["id"]}}
        if kind == "credentials":
            fields = self.objects["credential_types"][item["credential_type"]]["inputs"].get("fields", [])
            secrets = {field["id"] for field in fields if field.get("secret")}
            shown["inputs"] = {name: HIDDEN if name in secrets and value else value for name, value in item["inputs"].items()}
        if kind == "notification_templates":
            configuration = item["notification_configuration"]
            shown["notification_configuration"] = {name: HIDDEN if name == "password" else value for name, value in configuration.items()}
        return shown


def _kind_of(relation: str) -> str:
    if relation.startswith("notification_templates"):
        return "notification_templates"
    if relation.endswith("_nodes"):
        return "workflow_job_template_nodes"
    return {"children": "groups"}.get(relation, relation)


def _matches(item: Json, query: Mapping[str, str]) -> bool:
    either = {name.removeprefix("or__"): value for name, value in query.items() if name.startswith("or__")}
    every = {name: value for name, value in query.items() if not name.startswith("or__")}
    return all(str(item.get(name)) == value for name, value in every.items()) and (
        not either or any(str(item.get(name)) == value for name, value in either.items())
    )


@contextmanager
def controller() -> Iterator[Controller]:
    """Serve an empty controller on a free port of this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    served = Controller(f"http://127.0.0.1:{server.server_address[1]}")
    _Handler.handlers[server.server_address[1]] = served.handle
    thread = threading.Thread(target=server.serve_forever, name="controller", daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(QuietHandler):
    handlers: ClassVar[dict[int, Callable[[str, str, Any], tuple[int, Any]]]] = {}

    def _do(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        text = self.rfile.read(size) if size else b""
        basic = f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"
        expected = basic if "/tokens/" in self.path else f"Bearer {TOKEN}"
        if self.headers.get("Authorization") != expected:
            status, body = 401, {"detail": "Authentication credentials were not provided."}
        else:
            status, body = self.handlers[self.server.server_address[1]](self.command, self.path, json.loads(text) if text else None)
        self.send_response(status)
        self.send_header("X-API-Product-Name", "AWX")
        self.send_header("X-API-Product-Version", "24.6.1")
        content = b"" if body is None else json.dumps(body).encode()
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PATCH = do_DELETE = _do
