"""The manifests for Kubernetes: rules for each pod, what is built from them, and their schema."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from core.settings import PREFIX, Settings
from tests.house.checkout import ROOT, run_spotfloor

FOLDER = ROOT / "deploy" / "kubernetes"
Manifest = dict[str, Any]


def read(name: str) -> list[Manifest]:
    return [m for m in yaml.safe_load_all((FOLDER / name).read_text("utf-8")) if m]


def kustomization() -> Manifest:
    (only,) = read("kustomization.yaml")
    return only


def manifests() -> list[Manifest]:
    return [manifest for name in kustomization()["resources"] for manifest in read(name)]


def pods() -> dict[str, Manifest]:
    """The pod of each thing that runs, by its component."""
    return {
        m["spec"]["template"]["metadata"]["labels"]["app.kubernetes.io/component"]: m["spec"][
            "template"
        ]["spec"]
        for m in manifests()
        if "template" in m["spec"]
    }


def container(part: str) -> Manifest:
    (only,) = pods()[part]["containers"]
    assert isinstance(only, dict)
    return only


PARTS = sorted(pods())


def test_every_file_of_the_folder_is_used() -> None:
    found = {path.name for path in FOLDER.iterdir()}
    assert found == {"kustomization.yaml", *kustomization()["resources"]}


def test_the_parts_are_the_migration_the_web_the_api_and_the_worker() -> None:
    kinds = {m["metadata"]["name"]: m["kind"] for m in manifests() if "template" in m["spec"]}
    assert kinds == {
        "spotfloor-migrate": "Job",
        "spotfloor-web": "Deployment",
        "spotfloor-api": "Deployment",
        "spotfloor-worker": "StatefulSet",
    }
    assert {part: container(part)["args"] for part in PARTS} == {
        "migrate": ["db", "upgrade"],
        "web": ["serve", "--host", "0.0.0.0", "--no-api"],
        "api": ["api", "--host", "0.0.0.0"],
        "worker": ["worker"],
    }


@pytest.mark.parametrize("part", PARTS)
def test_a_pod_is_hardened(part: str) -> None:
    pod, own = pods()[part], container(part)
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "runAsGroup": 10001,
        "fsGroup": 10001,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert own["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC", "hostUsers"} & pod.keys()
    assert "memory" in own["resources"]["limits"]
    assert {"cpu", "memory"} <= own["resources"]["requests"].keys()
    places = {mount["mountPath"] for mount in own["volumeMounts"]}
    assert places == {"/tmp", "/home/app", "/data"}, "what the image writes to"
    assert all("emptyDir" in volume for volume in pod["volumes"])


@pytest.mark.parametrize("part", PARTS)
def test_the_cluster_puts_no_variables_of_its_own_among_our_settings(
    part: str, tmp_path: Path
) -> None:
    assert pods()[part]["enableServiceLinks"] is False
    # Why: a service named spotfloor-web would set this one in every pod.
    if part == "migrate":
        answer = run_spotfloor("doctor", home=tmp_path, SPOTFLOOR_WEB_PORT="tcp://10.0.0.1:8501")
        assert answer.returncode == 6
        assert "SPOTFLOOR_WEB_PORT" in answer.stderr


@pytest.mark.parametrize("part", PARTS)
def test_settings_come_from_the_config_and_secrets_from_a_secret(part: str) -> None:
    own = container(part)
    assert own["envFrom"] == [
        {"configMapRef": {"name": "spotfloor"}},
        {"secretRef": {"name": "spotfloor"}},
    ]
    names = {entry["name"] for entry in own.get("env", [])} - {"TMPDIR"}
    (config,) = kustomization()["configMapGenerator"]
    assert config["name"] == "spotfloor"
    names |= {literal.partition("=")[0] for literal in config["literals"]}
    known = {f"{PREFIX}{name.upper()}": field for name, field in Settings.model_fields.items()}
    assert names <= known.keys()
    secret = {name for name, field in known.items() if "SecretStr" in str(field.annotation)}
    assert not names & (secret | {"SPOTFLOOR_DATABASE_URL"})


def test_no_secret_is_kept_here_and_the_head_tells_how_to_make_it() -> None:
    assert "Secret" not in {m["kind"] for m in manifests()}
    head = (FOLDER / "kustomization.yaml").read_text("utf-8").partition("apiVersion")[0]
    told = set(re.findall(r"--from-literal=([A-Z_]+)=", head))
    assert told == {"SPOTFLOOR_DATABASE_URL", "PGPASSWORD", "SPOTFLOOR_SECRET_KEY"}


@pytest.mark.parametrize(
    ("part", "port", "alive", "ready"),
    [("web", 8501, "/_stcore/health", "/_stcore/health"), ("api", 8502, "/healthz", "/readyz")],
)
def test_what_listens_is_probed_and_served_on_its_port(
    part: str, port: int, alive: str, ready: str
) -> None:
    own = container(part)
    assert own["ports"] == [{"name": "http", "containerPort": port}]
    paths = {name: own[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")}
    assert all(probe["port"] == "http" for probe in paths.values())
    assert {name: probe["path"] for name, probe in paths.items()} == {
        "startup": alive,
        "readiness": ready,
        "liveness": alive,
    }
    (service,) = [
        m
        for m in manifests()
        if (m["kind"], m["metadata"]["name"]) == ("Service", f"spotfloor-{part}")
    ]
    assert service["spec"]["ports"] == [{"name": "http", "port": port, "targetPort": "http"}]
    assert service["spec"]["selector"] == {"app.kubernetes.io/component": part}


def test_probes_ask_the_api_by_its_address_which_is_safe_because_reads_need_a_token() -> None:
    (config,) = kustomization()["configMapGenerator"]
    assert "SPOTFLOOR_API_HOSTS=*" in config["literals"]
    assert not any("SPOTFLOOR_API_OPEN_READS" in literal for literal in config["literals"])
    assert container("api")["args"][-1] == "0.0.0.0", "on loopback reads would be open"


@pytest.mark.parametrize("part", ["migrate", "worker"])
def test_what_listens_on_no_port_is_not_probed_and_cannot_be_called(part: str) -> None:
    assert not {"ports", "startupProbe", "readinessProbe", "livenessProbe"} & container(part).keys()
    closed = [m for m in manifests() if m["metadata"]["name"] == "spotfloor-unreachable"]
    (rule,) = closed[0]["spec"]["podSelector"]["matchExpressions"]
    assert part in rule["values"]
    assert "ingress" not in closed[0]["spec"]


def test_the_worker_has_time_to_end_and_a_disk_of_its_own() -> None:
    from service.worker import STOP_WITHIN

    assert pods()["worker"]["terminationGracePeriodSeconds"] > STOP_WITHIN
    (worker,) = [m for m in manifests() if m["kind"] == "StatefulSet"]
    (claim,) = worker["spec"]["volumeClaimTemplates"]
    assert claim["metadata"]["name"] == "data"
    env = {entry["name"]: entry["value"] for entry in container("worker")["env"]}
    assert env == {"TMPDIR": "/data", "SPOTFLOOR_ARCHIVE_DIR": "/data/archive"}


def test_selectors_find_the_pods_they_are_for() -> None:
    for manifest in manifests():
        if manifest["kind"] in {"Deployment", "StatefulSet"}:
            wanted = manifest["spec"]["selector"]["matchLabels"]
            assert wanted.items() <= manifest["spec"]["template"]["metadata"]["labels"].items()


def built() -> list[Manifest]:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed; it builds the kustomization without a cluster")
    answer = subprocess.run(
        [kubectl, "kustomize", str(FOLDER)], capture_output=True, text=True, timeout=60
    )
    assert answer.returncode == 0, answer.stderr
    return list(yaml.safe_load_all(answer.stdout))


def test_kustomize_builds_it_and_names_the_config_by_its_content() -> None:
    found = built()
    assert len(found) == len(manifests()) + 1
    (config,) = [m["metadata"]["name"] for m in found if m["kind"] == "ConfigMap"]
    assert re.fullmatch(r"spotfloor-[a-z0-9]{10}", config)
    for manifest in found:
        if "template" in manifest.get("spec", {}):
            (own,) = manifest["spec"]["template"]["spec"]["containers"]
            assert own["envFrom"][0] == {"configMapRef": {"name": config}}
            assert re.fullmatch(r"spotfloor:\d+\.\d+\.\d+", own["image"])


@pytest.mark.parametrize("version", ["1.34", "1.37"])
def test_every_manifest_keeps_the_schema_of_kubernetes(version: str) -> None:
    checker = pytest.importorskip("kubernetes_validate", reason="make dev installs the schemas")
    for manifest in manifests():
        checker.validate(manifest, version, strict=True)
    broken = manifests()[0]
    broken["spec"]["template"]["spec"]["containers"][0]["nonsense"] = 1
    with pytest.raises(checker.ValidationError):
        checker.validate(broken, version, strict=True)
