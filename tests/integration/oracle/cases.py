# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Random clusters: nodes, pods that run on them, and pods that come in. Few values of each kind, so that they meet often.

What the API server refuses is not counted, so that a strategy may now and then make something invalid.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.integration.kubernetes_version import MINOR
from tests.integration.oracle.cluster_writer import Existing
from tests.integration.oracle.pods_together import Draw, Json, chance, companions, metadata, nomination, of, pod_affinities, priority_class
from tests.integration.oracle.profiles import FENCED_SCHEDULER_NAME, OPEN_SCHEDULER_NAME, OWNERS, SCHEDULER_NAME, SPREAD_SCHEDULER_NAME
from tests.integration.oracle.storage_cases import ZONE_LABELS, Storage, pod_volumes, storages
from tests.integration.oracle.topology_spread import spread_constraints

NODE_COUNT = 15
EXISTING_COUNT = 36
INCOMING_COUNT = 32
RUNTIME_CLASSES = {"light": {"cpu": "100m"}, "heavy": {"cpu": "500m", "memory": "256Mi"}}
# Nodes without a device plugin for it are unknown; on the others the plugin counts as ever.
DEVICE_CLASSES = {"nics": "example.com/nic"}
HOST = "kubernetes.io/hostname"


@dataclass(frozen=True)
class Case:
    """One cluster with its questions."""

    nodes: list[Json]
    existing: list[Existing]
    incoming: list[Json]
    storage: Storage


def cases() -> st.SearchStrategy[Case]:
    """Clusters of NODE_COUNT nodes."""
    names = [f"node-{number}" for number in range(NODE_COUNT)]
    return st.tuples(
        st.tuples(*map(nodes, names)).map(list),
        st.lists(existing_pods(), min_size=EXISTING_COUNT, max_size=EXISTING_COUNT),
        st.lists(incoming_pods(), min_size=INCOMING_COUNT, max_size=INCOMING_COUNT),
        storages(names),
    ).map(lambda drawn: Case(*drawn))


def some_of(**strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """A mapping without the keys that drew None."""
    return st.fixed_dictionaries(strategies).map(lambda drawn: {key: value for key, value in drawn.items() if value is not None})


# --- nodes ------------------------------------------------------------------------------------------------------------

TAINT_VALUES = {"dedicated": ("db", "web", ""), "tier": ("5", "1", "05", "high"), "node.kubernetes.io/unschedulable": ("",)}
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
LABEL_VALUES = {"zone": ("a", "b", "c"), "disk": ("ssd", "hdd", ""), "cores": ("2", "4", "16", "016", "x")}


def taints() -> st.SearchStrategy[Json]:
    """One taint."""
    keyed = of(*TAINT_VALUES).flatmap(lambda key: st.tuples(st.just(key), of(*TAINT_VALUES[key]), of(*EFFECTS)))
    return keyed.map(lambda drawn: dict(zip(("key", "value", "effect"), drawn, strict=True)))


@st.composite
def nodes(draw: Draw, name: str) -> Json:
    """One node. It does not change afterwards: no controller runs, and it has no annotation for kwok."""
    labels = {key: draw(of(*values)) for key, values in LABEL_VALUES.items() if chance(draw, 8)}
    labels |= {key: draw(of(*values)) for key, values in ZONE_LABELS.items() if chance(draw, 3)}
    if chance(draw, 9):
        labels[HOST] = name
    room = draw(
        some_of(
            cpu=of("2", "1", "1500m", "0.5", "4"),
            memory=of("2Gi", "1Gi", "1G", "1073741825", "1500M"),
            pods=of("110", "110", "3", "2", "1"),
        )
    )
    if chance(draw, 8):
        room["ephemeral-storage"] = draw(of("10Gi", "1Gi", "1G"))
    for resource in ("example.com/gpu", "example.com/nic", "ignored.example.com/disk"):
        if chance(draw, 3):
            room[resource] = draw(of("1", "2", "4", "0"))
    if chance(draw, 2):
        room["hugepages-2Mi"] = draw(of("4Mi", "8Mi"))
    drawn = draw(st.lists(taints(), max_size=2)) if chance(draw, 4) else []
    unique = {(taint["key"], taint["effect"]): taint for taint in drawn}
    features = ["RestartAllContainersOnContainerExits"] if chance(draw, 5) else []
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"unschedulable": chance(draw, 1), "taints": list(unique.values())},
        "status": {"allocatable": room, "capacity": room, "declaredFeatures": features},
    }


# --- what pods ask for ------------------------------------------------------------------------------------------------


@st.composite
def resources(draw: Draw) -> Json:
    """Requests and limits of a container; where only limits are given, the API server makes requests of them."""
    wanted = {}
    if chance(draw, 7):
        wanted["cpu"] = draw(of("250m", "500m", "0.1", "1", "0"))
    if chance(draw, 6):
        wanted["memory"] = draw(of("128Mi", "256Mi", "500M", "1Gi", "0.5G", "1073741824"))
    if chance(draw, 2):
        wanted["ephemeral-storage"] = draw(of("1Gi", "500M", "1G"))
    fixed = {}
    if chance(draw, 1):
        fixed[draw(of("example.com/gpu", "example.com/nic", "ignored.example.com/disk"))] = draw(of("1", "2", "0"))
    if chance(draw, 1) and {"cpu", "memory"} & wanted.keys():
        fixed["hugepages-2Mi"] = draw(of("2Mi", "4Mi"))
    if chance(draw, 2):
        return {"limits": wanted | fixed}
    limits = {"cpu": "1"} if chance(draw, 2) and "cpu" not in wanted else {}
    return {"requests": wanted, "limits": limits | fixed}


@st.composite
def ports(draw: Draw) -> Json:
    """A port on the host."""
    number = draw(of(80, 443))
    found = {"hostPort": number, "containerPort": number}
    if chance(draw, 4):
        found["protocol"] = draw(of("UDP", "TCP", "SCTP"))
    if chance(draw, 5):
        found["hostIP"] = draw(of("10.0.0.1", "10.0.0.2", "0.0.0.0"))
    return found


@st.composite
def containers(draw: Draw, name: str, *, port_tenths: int = 3) -> Json:
    """A container."""
    found: Json = {"name": name, "image": "none", "resources": draw(resources())}
    if chance(draw, port_tenths):
        found["ports"] = draw(st.lists(ports(), min_size=1, max_size=2))
    return found


@st.composite
def init_containers(draw: Draw, name: str) -> Json:
    """An init container, often one that keeps running."""
    found: Json = draw(containers(name))
    if chance(draw, 6):
        found["restartPolicy"] = "Always"
    return found


@st.composite
def pod_specs(draw: Draw) -> Json:
    """Draw the part of a spec that running and incoming pods share."""
    spec: Json = {"containers": [draw(containers("main"))], "terminationGracePeriodSeconds": 0}
    if chance(draw, 3):
        spec["containers"].append(draw(containers("second")))
    if chance(draw, 3):
        spec["initContainers"] = [draw(init_containers(f"init-{number}")) for number in range(draw(of(1, 2, 3)))]
    if chance(draw, 1):
        spec["runtimeClassName"] = draw(of(*RUNTIME_CLASSES))
    if chance(draw, 2):
        requests = draw(some_of(cpu=of("1", "2", "3", None), memory=of("1Gi", "2Gi", None)))
        limits = draw(some_of(cpu=of(None, "2", "4"), memory=of(None, "2Gi")))
        spec["resources"] = {"requests": requests, "limits": limits}
    if chance(draw, 1):
        spec["hostNetwork"] = True
        for container in spec["containers"]:
            container["ports"] = [{"containerPort": draw(of(80, 443, 8080))}]
    if chance(draw, 5):
        spec["volumes"] = draw(pod_volumes())
    return spec


def bare_specs() -> st.SearchStrategy[Json]:
    """Pods without requests, so that more of them fit."""
    return st.builds(lambda: {"containers": [{"name": "main", "image": "none"}], "terminationGracePeriodSeconds": 0})


# --- pods that run ----------------------------------------------------------------------------------------------------


@st.composite
def existing_pods(draw: Draw) -> Existing:
    """A pod on one of the nodes: starting, running, resized, finished or terminating; or one nominated for a node."""
    spec = draw(bare_specs() if chance(draw, 4) else pod_specs())
    spec["affinity"] = draw(pod_affinities(affinity_tenths=1, anti_affinity_tenths=2))
    node_name = f"node-{draw(st.integers(0, NODE_COUNT - 1))}"
    if chance(draw, 2):
        more, promise = draw(nomination(node_name))
        return Existing({"metadata": draw(metadata()), "spec": spec | more}, promise, terminating=False)
    spec["nodeName"] = node_name
    phase = draw(of("Running", "Running", "Running", "Pending", "Unknown", "Succeeded", "Failed"))
    finished = phase in ("Succeeded", "Failed")
    if finished:
        # When one of two pods with the same host port ends, the scheduler's cache takes the port for free
        # (HostPortInfo.Remove): pods that it has placed itself never come to that.
        _drop_host_ports(spec)
    status = {"phase": phase} | (draw(resized(spec)) if chance(draw, 4) else {})
    manifest = {"metadata": draw(metadata()), "spec": spec}
    return Existing(manifest, status if phase != "Pending" or len(status) > 1 else None, not finished and chance(draw, 1))


def _drop_host_ports(spec: Json) -> None:
    spec.pop("hostNetwork", None)
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        container.pop("ports", None)


@st.composite
def resized(draw: Draw, spec: Json) -> Json:
    """Status of a pod in the middle of a resize."""
    status: Json = {"containerStatuses": [draw(_resized_container(c)) for c in spec["containers"]]}
    if "initContainers" in spec:
        status["initContainerStatuses"] = [draw(_resized_container(c)) for c in spec["initContainers"]]
    reason = draw(of(None, "Infeasible", "Deferred"))
    if reason:
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    if "resources" in spec and chance(draw, 6):
        status |= draw(some_of(resources=st.builds(lambda r: {"requests": r}, _amounts()), allocatedResources=_amounts()))
    return status


def _amounts() -> st.SearchStrategy[Json]:
    return some_of(cpu=of("100m", "1", "1500m", None), memory=of(None, "128Mi", "1Gi"))


@st.composite
def _resized_container(draw: Draw, container: Json) -> Json:
    found: Json = {"name": container["name"], "image": "none", "imageID": "", "ready": True, "restartCount": 0}
    if chance(draw, 8):
        found["resources"] = {"requests": draw(_amounts())} if chance(draw, 8) else {}
    if chance(draw, 7):
        found["allocatedResources"] = draw(_amounts())
    return found


# --- pods that come in ------------------------------------------------------------------------------------------------


@st.composite
def incoming_pods(draw: Draw) -> Json:
    """A pod for the scheduler under observation."""
    company = chance(draw, 7)
    spec = draw(companions() if company else pod_specs()) | draw(priority_class())
    if company and chance(draw, 4):
        spec["volumes"] = draw(pod_volumes())
    spec["schedulerName"] = draw(of(*[SCHEDULER_NAME] * 4, FENCED_SCHEDULER_NAME, OPEN_SCHEDULER_NAME, SPREAD_SCHEDULER_NAME))
    if chance(draw, 2 if company else 5):
        spec["tolerations"] = draw(st.lists(tolerations(), min_size=1, max_size=3))
    if chance(draw, 1 if company else 2):
        spec["nodeSelector"] = {key: draw(of(*LABEL_VALUES[key])) for key in LABEL_VALUES if chance(draw, 4)}
    affinity: Json = {}
    if chance(draw, 2 if company else 4):
        affinity |= draw(node_affinities())
    if chance(draw, 5):
        affinity |= draw(pod_affinities())
    if affinity:
        spec["affinity"] = affinity
    if chance(draw, 6 if company else 3):
        spec["topologySpreadConstraints"] = draw(spread_constraints())
    # Older API servers store no such rules.
    if MINOR >= 36 and chance(draw, 1):
        spec["containers"][0] |= draw(restart_rules())
    if "volumes" in spec and chance(draw, 6):
        _leave_to_volumes(spec)
    described = draw(metadata())
    if spec["schedulerName"] == SPREAD_SCHEDULER_NAME and chance(draw, 9):
        # The cluster fills in the uid.
        described["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": draw(of(*OWNERS)), "name": "owner", "controller": True}]
    return {"metadata": described, "spec": spec}


def _leave_to_volumes(spec: Json) -> None:
    """Leave the pod hardly any reason for a rejection other than its volumes."""
    for name in ("nodeSelector", "affinity", "resources", "initContainers", "runtimeClassName", "hostNetwork", "topologySpreadConstraints"):
        spec.pop(name, None)
    spec["containers"] = [{"name": "main", "image": "none"}]
    spec["tolerations"] = [{"operator": "Exists"}]


def restart_rules() -> st.SearchStrategy[Json]:
    """Rules of which one action needs a feature of the node."""
    rules = of("RestartAllContainers", "Restart").map(lambda action: [{"action": action, "exitCodes": {"operator": "In", "values": [42]}}])
    return st.fixed_dictionaries({"restartPolicy": st.just("Never"), "restartPolicyRules": rules})


@st.composite
def tolerations(draw: Draw) -> Json:
    """A toleration of any operator."""
    if chance(draw, 1):
        found = {"operator": "Exists"}
    else:
        key = draw(of(*TAINT_VALUES))
        operator = draw(of("Exists", "Equal", "", "Lt", "Gt"))
        found = {"key": key, "operator": operator}
        if operator in ("Lt", "Gt"):
            found["value"] = draw(of("1", "5", "5", "9", "-1"))
        elif operator != "Exists":
            found["value"] = draw(of(*TAINT_VALUES[key]))
    if chance(draw, 4):
        found["effect"] = draw(of(*EFFECTS))
    return found


def node_affinities() -> st.SearchStrategy[Json]:
    """Required node affinity with one to three terms."""
    return st.lists(node_terms(), min_size=1, max_size=3).map(
        lambda terms: {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    )


@st.composite
def node_terms(draw: Draw) -> Json:
    """A term over labels, names, both or nothing."""
    term: Json = {}
    if chance(draw, 8):
        term["matchExpressions"] = draw(st.lists(expressions(), min_size=1, max_size=2))
    if chance(draw, 3):
        names = st.integers(0, NODE_COUNT).map(lambda number: [f"node-{number}"])
        field = st.fixed_dictionaries({"key": st.just("metadata.name"), "operator": of("In", "NotIn"), "values": names})
        term["matchFields"] = draw(st.lists(field, min_size=1, max_size=2))
    return term


@st.composite
def expressions(draw: Draw) -> Json:
    """An expression of any operator."""
    key = draw(of(*LABEL_VALUES, HOST))
    operator = draw(of("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Exists", "DoesNotExist"):
        return {"key": key, "operator": operator}
    if operator in ("Gt", "Lt"):
        return {"key": draw(of("cores", "zone")), "operator": operator, "values": [draw(of("3", "4", "16", "017", "x", "0"))]}
    known = LABEL_VALUES.get(key, ("node-0", "node-1"))
    return {"key": key, "operator": operator, "values": draw(st.lists(of(*known), min_size=1, max_size=2))}
