# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random objects of the kinds that are read, by the OpenAPI documents of an API server.

Each field is absent, null, empty or filled, whether the document requires it or not, at every depth.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client import resources
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import Resource

from lab.api import ApiClient

Json = dict[str, Any]

READ: tuple[Resource, ...] = tuple(
    value for value in vars(resources).values() if isinstance(value, Resource) and value is not resources.POD_STATUS
)
"""Every resource that this collection reads."""

DEEPEST = 16
QUANTITIES = ("1", "100m", "1Gi", "2e3", "0")
TIME = "2026-01-31T08:15:00Z"
MICRO_TIME = "2026-01-31T08:15:00.000000Z"
TEXTS = ("x", "a-1", "Always", "In", "Exists", "NoSchedule", "kubernetes.io/hostname", "é\n\u2028", "²")
_PREFIX = "#/components/schemas/"


class Schemas:
    """The schemas of one API server, by the names of its documents, and the schema of each resource that is read."""

    def __init__(self, api: ApiClient) -> None:
        self._named: dict[str, Json] = {}
        self._kinds: dict[tuple[str, str, str], Json] = {}
        for prefix in sorted({resource.prefix for resource in READ}):
            found = api.get(f"/openapi/v3{prefix}")["components"]["schemas"]
            self._named.update(found)
            for schema in found.values():
                for kind in schema.get("x-kubernetes-group-version-kind", ()):
                    self._kinds[kind["group"], kind["version"], kind["kind"]] = schema

    def of(self, resource: Resource) -> Json:
        """The schema of the resource's objects."""
        *_start, group, version = resource.prefix.split("/")
        return self._kinds["" if group == "api" else group, version, resource.kind]

    def resolve(self, schema: Json) -> tuple[str, Json]:
        """The schema that is meant, and its name; empty for one without a name."""
        name = ""
        while "$ref" in schema or "allOf" in schema:
            schema = schema["allOf"][0] if "allOf" in schema else schema
            name = schema["$ref"].removeprefix(_PREFIX)
            schema = self._named[name]
        return name.rpartition(".")[2], schema

    def empty(self, schema: Json) -> Any:
        """The empty value of a field; null for a time, which has none."""
        name, found = self.resolve(schema)
        special = {"Time": None, "MicroTime": None, "Quantity": "0", "IntOrString": 0}
        if name in special:
            return special[name]
        return {"array": [], "string": "", "integer": 0, "number": 0, "boolean": False}.get(found.get("type", ""), {})

    def paths(self, schema: Json, depth: int = 0, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Json]]:
        """Every field below an object, with its schema; ``[]`` means the items of a list."""
        _name, schema = self.resolve(schema)
        for key, value in schema.get("properties", {}).items():
            yield from self._below(value, depth, (*path, key))

    def _below(self, value: Json, depth: int, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Json]]:
        yield path, value
        _name, found = self.resolve(value)
        if depth < DEEPEST and "properties" in found and path.count(path[-1]) <= 2:
            yield from self.paths(found, depth + 1, path)
        elif depth < DEEPEST and "items" in found:
            yield from self._below(found["items"], depth + 1, (*path, "[]"))


class Maker:
    """Makes random objects. Equal seeds give equal objects."""

    def __init__(self, schemas: Schemas, seed: int) -> None:
        self._schemas = schemas
        self.random = random.Random(seed)
        self._left = 0

    def object(self, resource: Resource) -> Json:
        """An object of the resource with a name and a uid, which every server gives."""
        self._left = self.random.choice((20, 60, 200))
        made = self._object(self._schemas.of(resource), 0)
        metadata = made.get("metadata") if isinstance(made.get("metadata"), dict) else {}
        namespace = {"namespace": "app"} if resource.namespaced else {}
        return {**made, "metadata": {**metadata, "name": "odd", "uid": "odd", **namespace}}

    def _object(self, schema: Json, depth: int) -> Json:
        made = {}
        properties = list(schema["properties"].items())
        self.random.shuffle(properties)
        for name, value in properties:
            choice = self.random.random()
            if choice < 0.1:
                made[name] = None
            elif choice < 0.2:
                made[name] = self._schemas.empty(value)
            elif self._left > 0 and (choice < 0.5 or name in ("spec", "template")):
                self._left -= 1
                made[name] = self._filled(value, depth + 1)
        return made

    def _filled(self, schema: Json, depth: int) -> Any:
        name, schema = self._schemas.resolve(schema)
        if name in _WELL_KNOWN:
            return self.random.choice(_WELL_KNOWN[name])
        kind = schema.get("type", "")
        if depth > DEEPEST or kind not in ("object", "array"):
            return self._scalar(schema, kind)
        if kind == "array":
            return [self._entry(schema["items"], depth) for _number in range(self.random.randint(1, 2))]
        if "properties" in schema:
            return self._object(schema, depth)
        values = schema.get("additionalProperties")
        return {"key": self._entry(values, depth)} if isinstance(values, dict) else {"key": "value"}

    def _entry(self, schema: Json, depth: int) -> Any:
        """An item of a list or a value of a map."""
        return None if self.random.random() < 0.1 else self._filled(schema, depth + 1)

    def _scalar(self, schema: Json, kind: str) -> Any:
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        if kind == "string":
            return TIME if schema.get("format") == "date-time" else self.random.choice(TEXTS)
        values = {"integer": (0, 1, 3, 2**31 - 1, -1), "number": (0, 1.5), "boolean": (True, False)}
        return self.random.choice(values.get(kind, ({},)))

    def mutated(self, data: bytes) -> bytes:
        """The text with some bytes changed, doubled or left out."""
        changed = bytearray(data)
        for _number in range(self.random.randint(1, 3)):
            place = self.random.randrange(len(changed))
            match self.random.randrange(4):
                case 0:
                    changed[place] = self.random.randrange(256)
                case 1:
                    del changed[place]
                case 2:
                    changed[place:place] = self.random.choice((b"9" * 5000, b"null", b"{", b"]", b'"', b",", b"[" * 5000 + b"]" * 5000))
                case _:
                    changed[place : place + 1] = self.random.choice((b"5", b'"x"', b"true", b"-1", b"[]"))
        return bytes(changed)

    def misfit(self, value: Any) -> Any:
        """The value with one of its parts replaced by one of another type, where it is valid JSON nevertheless."""
        parts = list(_containers(value))
        container = self.random.choice(parts)
        key = self.random.choice(list(container) if isinstance(container, dict) else range(len(container)))
        container[key] = self.random.choice((5, -1, 2**80, 1.5, True, "x", "9" * 5000, [], {}, [5], {"key": 5}, [None], {"key": {}}))
        return value


_WELL_KNOWN: dict[str, tuple[Any, ...]] = {
    "Quantity": QUANTITIES,
    "IntOrString": (0, 1, "25%", "0%"),
    "Time": (TIME,),
    "MicroTime": (MICRO_TIME,),
}


def without_nulls(value: Any) -> Any:
    """The value with everything absent that is null."""
    if isinstance(value, dict):
        return {key: without_nulls(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list):
        return [without_nulls(entry) for entry in value if entry is not None]
    return value


def _containers(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list) and value:
        yield value
        for entry in value.values() if isinstance(value, dict) else value:
            yield from _containers(entry)
