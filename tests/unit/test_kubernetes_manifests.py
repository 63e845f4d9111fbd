"""The manifests for Kubernetes, read: rights as the list says, names and ports that meet, no secret, no root."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters.engines.kubernetes import rights
from portal.supervisor import children

FOLDER = Path(__file__).resolve().parents[2] / "Dockerfiles" / "kubernetes"
Json = dict[str, Any]


def documents(folder: str) -> list[Json]:
    """Every object of the files that the folder's kustomization names."""
    here = FOLDER / folder
    named = yaml.safe_load((here / "kustomization.yaml").read_text())["resources"]
    files = {path.name for path in here.glob("*.yaml")} - {"kustomization.yaml"}
    assert files == set(named), "a file that kustomize does not apply"
    return [each for name in named for each in yaml.safe_load_all((here / name).read_text())]


def of_kind(folder: str, kind: str) -> dict[str, Json]:
    return {each["metadata"]["name"]: each for each in documents(folder) if each["kind"] == kind}


def pods() -> dict[str, Json]:
    """The pod of each Deployment and Job of Longshore itself, by name."""
    made = {**of_kind("longshore", "Deployment"), **of_kind("longshore", "Job")}
    return {name: each["spec"]["template"]["spec"] for name, each in made.items()}


@pytest.mark.parametrize(("kind", "rules"), [("Role", rights.NAMESPACED), ("ClusterRole", rights.CLUSTER_WIDE)])
def test_the_roles_are_the_list_that_a_cluster_is_asked_for(kind: str, rules: tuple[rights.ClusterRight, ...]) -> None:
    (role,) = of_kind("rights", kind).values()
    assert role["rules"] == [
        {"apiGroups": [""], "resources": [rule.resource], "verbs": list(rule.verbs)} for rule in rules
    ]


def test_bindings_are_of_the_account_that_longshore_runs_as() -> None:
    (account,) = of_kind("rights", "ServiceAccount").values()
    subject = {"kind": "ServiceAccount", **account["metadata"]}
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        (binding,) = of_kind("rights", kind).values()
        assert binding["subjects"] == [subject]
        assert binding["roleRef"]["name"] in of_kind("rights", binding["roleRef"]["kind"])
    assert {pod["serviceAccountName"] for pod in pods().values()} == {account["metadata"]["name"]}


def test_everything_is_in_one_of_the_two_namespaces() -> None:
    namespaces = set(of_kind("rights", "Namespace"))
    placed = {each["metadata"].get("namespace") for each in documents("rights")} - {None}
    assert placed <= namespaces == {"longshore", "longshore-jobs"}
    assert yaml.safe_load((FOLDER / "longshore/kustomization.yaml").read_text())["namespace"] == "longshore"


def test_processes_are_started_as_the_supervisor_starts_them() -> None:
    crew = {child.name.replace(" ", "-"): child.argv for child in children("0.0.0.0", "9186", apps=("0.0.0.0", "9187"))}
    del crew["first-start"]  # it registers the Docker of its host
    for name, argv in crew.items():
        (container,) = pods()[name]["containers"]
        assert container["command"] == [
            "python3",
            *(Path(word).name if "/manage" in word else word for word in argv[1:]),
        ]


def test_services_lead_to_ports_that_are_open() -> None:
    deployments = of_kind("longshore", "Deployment")
    for service in of_kind("longshore", "Service").values():
        chosen = [
            each
            for each in deployments.values()
            if service["spec"]["selector"].items() <= each["spec"]["template"]["metadata"]["labels"].items()
        ]
        (deployment,) = chosen
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= {
            port["name"] for port in container["ports"]
        }


def test_no_container_is_root_or_may_become_it_or_writes_its_image() -> None:
    for pod in pods().values():
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in [*pod["containers"], *pod.get("initContainers", ())]:
            rules = container["securityContext"]
            assert (rules["allowPrivilegeEscalation"], rules["readOnlyRootFilesystem"]) == (False, True)
            assert rules["capabilities"] == {"drop": ["ALL"]}
            assert {mount["name"] for mount in container["volumeMounts"]} == {each["name"] for each in pod["volumes"]}


def test_settings_come_from_a_secret_that_no_file_has() -> None:
    assert not of_kind("longshore", "Secret") and not of_kind("rights", "Secret")
    for pod in pods().values():
        for container in [*pod["containers"], *pod.get("initContainers", ())]:
            assert container["envFrom"] == [{"secretRef": {"name": "longshore-settings"}}]
            # Below the volume, whose own folder is root's: Longshore takes none that is another's.
            assert container["env"] == [{"name": "LONGSHORE_HOME", "value": "/var/lib/longshore/home"}]
            assert {"name": "home", "mountPath": "/var/lib/longshore"} in container["volumeMounts"]
