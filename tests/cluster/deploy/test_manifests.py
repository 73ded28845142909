"""Our manifests against KubeRay 1.7's own schemas, Kubernetes' schemas, Ray's schema, and our table of variables."""

import copy
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from cluster.deploy.ray_environment import HEAD, NETWORK, STOP_WAIT, WORKER, stop_wait_s
from engine.flow.limits import RuntimeSettings
from tests.support.paths import REPO

DEPLOY = REPO / "cluster" / "deploy"
RAY_MANIFESTS = {name: DEPLOY / "kubernetes" / f"{name}.yaml" for name in ("raycluster", "rayjob")}
GATED = {
    "gcsFaultToleranceOptions": "GCSFaultToleranceEmbeddedStorage",
    "networkPolicy": "RayClusterNetworkPolicy",
}


def documents(path: Path) -> list[dict]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def strict(schema):
    """The definition's schema as JSON schema that refuses unknown keys, which the API server would drop silently."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"anyOf": [{"type": "integer"}, {"type": "string", **pattern(schema)}]}
    closed = {name: strict(value) for name, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        closed.setdefault("additionalProperties", False)
    return closed


def pattern(schema: dict) -> dict:
    return {"pattern": schema["pattern"]} if "pattern" in schema else {}


@pytest.fixture(scope="module")
def kuberay(shared_data) -> Path:
    folder = shared_data / "kuberay"
    if not folder.is_dir():
        pytest.skip(f"KubeRay's definitions are not in {folder}")
    return folder


@pytest.fixture(scope="module")
def mistakes(kuberay):
    """What is wrong with a manifest, by KubeRay's definitions."""
    jsonschema = pytest.importorskip("jsonschema")
    validators = {}
    for plural in ("rayclusters", "rayjobs"):
        [definition] = yaml.load_all((kuberay / f"ray.io_{plural}.yaml").read_text(), yaml.CSafeLoader)
        [version] = [version for version in definition["spec"]["versions"] if version["name"] == "v1"]
        schema = strict(version["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = {"type": "object"}
        validators[definition["spec"]["names"]["kind"]] = jsonschema.Draft7Validator(schema)
    return lambda document: [error.message for error in validators[document["kind"]].iter_errors(document)]


def cluster_of(document: dict) -> dict:
    return document["spec"]["rayClusterSpec"] if document["kind"] == "RayJob" else document["spec"]


@pytest.fixture(params=RAY_MANIFESTS)
def manifest(request) -> dict:
    [document] = documents(RAY_MANIFESTS[request.param])
    return document


def test_kuberays_own_samples_pass(kuberay, mistakes):
    samples = [
        d for path in (kuberay / "samples").glob("*.yaml") for d in documents(path) if d["kind"].startswith("Ray")
    ]
    assert len(samples) >= 4
    assert [mistakes(sample) for sample in samples] == [[]] * len(samples)


def test_our_manifests_pass(manifest, mistakes):
    assert mistakes(manifest) == []


@pytest.mark.parametrize(
    "break_it",
    [
        lambda spec: spec.update(netwokPolicy=spec.pop("networkPolicy")),
        lambda spec: spec["authOptions"].update(mode="tokens"),
        lambda spec: spec["networkPolicy"]["worker"].update(egresRules=[]),
        lambda spec: spec["workerGroupSpecs"][0].update(maxReplicas="many"),
        lambda spec: spec["headGroupSpec"]["template"]["spec"]["containers"][0].update(imagePulPolicy="Always"),
    ],
)
def test_a_misspelt_manifest_fails(manifest, mistakes, break_it):
    broken = copy.deepcopy(manifest)
    break_it(cluster_of(broken))
    assert mistakes(broken)


def test_every_node_has_the_variables_of_the_table(manifest):
    spec = cluster_of(manifest)
    head, *workers = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    drain = str(stop_wait_s(RuntimeSettings().drain_s))
    assert variables(head) == {**NETWORK, STOP_WAIT: variables(head)[STOP_WAIT]}
    assert int(variables(head)[STOP_WAIT]) >= int(drain)
    assert spec["gcsFaultToleranceOptions"]["backend"] == HEAD["RAY_gcs_storage"]
    assert [variables(worker) for worker in workers] == [{**NETWORK, **WORKER}] * len(workers)


def variables(group: dict) -> dict[str, str]:
    [container] = group["template"]["spec"]["containers"]
    return {each["name"]: each["value"] for each in container["env"]}


def test_pods_are_closed_stoppable_and_keyless(manifest):
    spec = cluster_of(manifest)
    assert spec["authOptions"] == {"mode": "token", "secretName": "foil-ray-token"}
    assert spec["networkPolicy"]["mode"] == "DenyAll"
    for side in ("head", "worker"):
        ports = {port["port"] for rule in spec["networkPolicy"][side]["egressRules"] for port in rule["ports"]}
        assert {53, 443} <= ports
    for group in [spec["headGroupSpec"], *spec["workerGroupSpecs"]]:
        pod = group["template"]["spec"]
        [container] = pod["containers"]
        assert pod["restartPolicy"] == "Never", "autoscaler v2 wants it"
        assert container["lifecycle"]["preStop"]
        assert {"name": "keys", "mountPath": "/etc/foil/keys", "readOnly": True} in container["volumeMounts"]
        assert not any("valueFrom" in each for each in container["env"])
    assert any("nvidia.com/gpu" in g["template"]["spec"]["containers"][0]["resources"]["limits"]
               for g in spec["workerGroupSpecs"])  # fmt: skip


def test_a_rayjob_tidies_up_and_tries_again():
    [job] = documents(RAY_MANIFESTS["rayjob"])
    spec = job["spec"]
    assert (spec["shutdownAfterJobFinishes"], spec["submissionMode"]) == (True, "SidecarMode")
    assert spec["backoffLimit"] > 0


@pytest.mark.parametrize("name", RAY_MANIFESTS)
def test_the_alpha_gates_are_printed_in_the_manifest_and_in_the_page(name):
    text = RAY_MANIFESTS[name].read_text()
    page = (REPO / "docs" / "operators.md").read_text()
    used = {gate for field, gate in GATED.items() if field in cluster_of(yaml.safe_load(text))}
    for gate in used:
        assert f"{gate}=true" in text
        assert f"{gate}=true" in page


def test_core_objects_pass_kubernetes_own_validation(manifest):
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    core = documents(DEPLOY / "kubernetes" / "base.yaml")
    assert [document["kind"] for document in core].count("PodDisruptionBudget") == 2
    spec = cluster_of(manifest)
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", **group["template"]["metadata"]},
         "spec": group["template"]["spec"]}
        for group in [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    ]  # fmt: skip
    for document in [*core, *pods]:
        kubernetes_validate.validate(document, "1.34", strict=True)
    broken = copy.deepcopy(core[-1])
    broken["spec"]["maxUnavailabel"] = broken["spec"].pop("maxUnavailable")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, "1.34", strict=True)


def test_a_disruption_budget_finds_its_pods(manifest):
    spec = cluster_of(manifest)
    labels = [g["template"]["metadata"]["labels"] for g in [spec["headGroupSpec"], *spec["workerGroupSpecs"]]]
    for document in documents(DEPLOY / "kubernetes" / "base.yaml"):
        if document["kind"] == "PodDisruptionBudget":
            wanted = document["spec"]["selector"]["matchLabels"].items()
            assert any(wanted <= each.items() for each in labels)


@pytest.mark.parametrize("path", sorted((DEPLOY / "autoscaler").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_autoscaler_accepts_its_pages(path, tmp_path, monkeypatch):
    util = pytest.importorskip("ray.autoscaler._private.util")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))  # the local provider keeps its state there
    config = yaml.safe_load(path.read_text())
    util.validate_config(util.prepare_config(config))
    for commands, beside in (("head_start_ray_commands", HEAD), ("worker_start_ray_commands", WORKER)):
        assert (
            dict(re.findall(r"\b(RAY_[a-z]\w+)=(\S+)", config[commands][-1])).items() >= {**NETWORK, **beside}.items()
        )
    with pytest.raises(Exception, match="max_wokers"):
        util.validate_config({**util.prepare_config(config), "max_wokers": 1})


def test_the_slurm_script_parses_and_sets_the_table():
    script = DEPLOY / "slurm" / "foil.sbatch"
    subprocess.run(["bash", "-n", str(script)], check=True)
    found = dict(re.findall(r"\b(RAY_[a-z]\w+)=(\S+)", script.read_text()))
    assert found.items() >= {**NETWORK, **HEAD, **WORKER}.items()
