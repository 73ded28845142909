"""Our manifests, as kustomize builds them, against KubeRay 1.7's own schemas, Kubernetes' schemas, Ray's schema, and
our table of variables.
"""

import copy
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from foil.cluster.deploy.ray_environment import HEAD, NETWORK, STOP_WAIT, WORKER, stop_wait_s
from foil.engine.flow.limits import RuntimeSettings
from tests.support.paths import REPO

DEPLOY = REPO / "cluster" / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
VARIANTS = {"cluster": [], "job": ["job"], "cluster in s3": ["s3"], "job in s3": ["s3", "job"]}
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


def build(components: list[str], folder: Path) -> list[dict]:
    """What the pages become with these components: by kustomize, or by kubectl, which holds it."""
    tool = next((each for each in (["kustomize", "build"], ["kubectl", "kustomize"]) if shutil.which(each[0])), None)
    if not tool and components:
        pytest.skip("neither kustomize nor kubectl is here, which build the variants")
    if not tool:
        return [each for name in ("base", "raycluster") for each in documents(KUBERNETES / "base" / f"{name}.yaml")]
    shutil.copytree(KUBERNETES, folder / "kubernetes")
    page = folder / "kubernetes" / "kustomization.yaml"
    page.write_text(yaml.safe_dump({**yaml.safe_load(page.read_text()), "components": components}))
    done = subprocess.run([*tool, page.parent], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


@pytest.fixture(scope="module", params=VARIANTS)
def built(request, tmp_path_factory) -> list[dict]:
    return build(VARIANTS[request.param], tmp_path_factory.mktemp("built"))


@pytest.fixture
def manifest(built) -> dict:
    [document] = [document for document in built if document["kind"].startswith("Ray")]
    return document


def groups(manifest: dict) -> list[dict]:
    spec = cluster_of(manifest)
    return [spec["headGroupSpec"], *spec["workerGroupSpecs"]]


def pods(manifest: dict) -> list[dict]:
    return [group["template"]["spec"] for group in groups(manifest)]


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
    head, *workers = [variables(group) for group in groups(manifest)]
    drain = str(stop_wait_s(RuntimeSettings().drain_s))
    assert head == {**NETWORK, STOP_WAIT: head[STOP_WAIT]}
    assert int(head[STOP_WAIT]) >= int(drain)
    assert spec["gcsFaultToleranceOptions"]["backend"] == HEAD["RAY_gcs_storage"]
    assert workers == [{**NETWORK, **WORKER}] * len(workers)


def variables(group: dict) -> dict[str, str]:
    [container] = group["template"]["spec"]["containers"]
    return {each["name"]: each["value"] for each in container["env"] if each["name"].startswith("RAY_")}


def test_pods_are_stoppable_and_keyless(manifest):
    assert cluster_of(manifest)["authOptions"] == {"mode": "token", "secretName": "foil-ray-token"}
    for pod in pods(manifest):
        [container] = pod["containers"]
        assert pod["restartPolicy"] == "Never", "autoscaler v2 wants it"
        assert container["lifecycle"]["preStop"]
        assert {"name": "keys", "mountPath": "/etc/foil/keys", "readOnly": True} in container["volumeMounts"]
        assert "envFrom" not in container
        assert not any("valueFrom" in each for each in container["env"])
    assert any("nvidia.com/gpu" in pod["containers"][0]["resources"]["limits"] for pod in pods(manifest))


def test_the_network_is_closed_but_for_dns_models_and_prometheus(manifest):
    policy = cluster_of(manifest)["networkPolicy"]
    assert policy["mode"] == "DenyAll"
    for side in ("head", "worker"):
        ports = {port["port"]: rule["to"] for rule in policy[side]["egressRules"] for port in rule["ports"]}
        assert {53, 443, 8000} == ports.keys() - {6443}
        assert "namespaceSelector" in ports[8000][0], "vLLM in this Kubernetes"
        assert (6443 in ports) == (side == "head"), "the autoscaler's API server"
        assert [port["port"] for rule in policy[side]["ingressRules"] for port in rule["ports"]] == [8080]


def test_containers_keep_to_the_restricted_standard(built, manifest):
    closed = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert cluster_of(manifest)["autoscalerOptions"]["securityContext"] == closed
    for pod in pods(manifest):
        nobody = pod["securityContext"]
        assert (nobody["runAsNonRoot"], nobody["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
        assert [container["securityContext"] for container in pod["containers"]] == [closed]
        assert pod["automountServiceAccountToken"] is False
    [namespace] = [document for document in built if document["kind"] == "Namespace"]
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]


def test_the_autoscaler_alone_has_the_token_of_the_api(manifest):
    head, *workers = pods(manifest)
    [volume] = [each["name"] for each in head["volumes"] if "projected" in each]
    mounted = {each["name"]: each["mountPath"] for each in cluster_of(manifest)["autoscalerOptions"]["volumeMounts"]}
    assert mounted[volume] == "/var/run/secrets/kubernetes.io/serviceaccount"
    assert volume not in {mount["name"] for mount in head["containers"][0]["volumeMounts"]}
    assert not [each for pod in workers for each in pod["volumes"] if "projected" in each]


def test_what_a_pod_writes_has_a_place_and_a_limit(manifest):
    for pod in pods(manifest):
        [container] = pod["containers"]
        volumes = {each["name"]: each for each in pod["volumes"]}
        mounts = {each["mountPath"]: volumes[each["name"]] for each in container["volumeMounts"]}
        assert {"/tmp", "/home/ray"} <= mounts.keys()
        on_disk = [each["emptyDir"] for each in volumes.values() if "medium" not in each.get("emptyDir", {"medium": 0})]
        limits = container["resources"]["limits"]
        assert container["resources"]["requests"] == limits
        assert sum(gibibytes(each["sizeLimit"]) for each in on_disk) <= gibibytes(limits["ephemeral-storage"])


def gibibytes(quantity: str) -> int:
    return int(re.fullmatch(r"(\d+)Gi", quantity)[1])


def test_no_budget_blocks_a_drain(built, manifest):
    assert "PodDisruptionBudget" not in {document["kind"] for document in built}, "KubeRay has no scale subresource"
    head = groups(manifest)[0]["template"]["metadata"]["annotations"]
    assert head["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"


def test_a_run_has_a_shared_volume_or_a_bucket(request, built, manifest):
    claims = [document["spec"] for document in built if document["kind"] == "PersistentVolumeClaim"]
    mounts = [{each["mountPath"] for each in pod["containers"][0]["volumeMounts"]} for pod in pods(manifest)]
    names = [{each["name"] for each in pod["containers"][0]["env"]} for pod in pods(manifest)]
    if "s3" in request.node.callspec.params["built"]:
        assert not claims
        assert not any("/runs" in each for each in mounts)
        assert all("AWS_SHARED_CREDENTIALS_FILE" in each for each in names)
    else:
        assert all(claim["storageClassName"] for claim in claims)
        assert all("/runs" in each for each in mounts)
        assert not any("AWS_SHARED_CREDENTIALS_FILE" in each for each in names)


@pytest.mark.parametrize("where", [[], ["s3"]], ids=["volume", "s3"])
def test_a_rayjob_has_the_cluster_that_stays_inside_it_tidies_up_and_tries_again(where, tmp_path):
    kinds = {document["kind"]: document for document in build([*where, "job"], tmp_path / "job")}
    assert "RayCluster" not in kinds
    stays = {document["kind"]: document for document in build(where, tmp_path / "cluster")}
    spec = kinds["RayJob"]["spec"]
    assert spec["rayClusterSpec"] == stays["RayCluster"]["spec"]
    assert (spec["shutdownAfterJobFinishes"], spec["submissionMode"]) == (True, "SidecarMode")
    assert spec["backoffLimit"] > 0


def test_the_page_that_is_applied_names_what_is_there_and_every_image(manifest):
    page = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
    told = (KUBERNETES / "kustomization.yaml").read_text()
    assert page["components"] in VARIANTS.values()
    assert {"job", "s3"} <= set(re.findall(r"^(?:# )?- (\w+)  #", told, re.MULTILINE))
    named = {each["name"] for each in page["images"]}
    assert {pod["containers"][0]["image"].partition(":")[0] for pod in pods(manifest)} == named


def test_the_alpha_gates_are_printed_in_the_manifest_and_in_the_page(manifest):
    text = (KUBERNETES / "base" / "raycluster.yaml").read_text()
    page = (REPO / "docs" / "clusters.md").read_text()
    for gate in (gate for field, gate in GATED.items() if field in cluster_of(manifest)):
        assert f"{gate}=true" in text
        assert f"{gate}=true" in page


def test_core_objects_pass_kubernetes_own_validation(built, manifest):
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    core = [document for document in built if not document["kind"].startswith("Ray")]
    shells = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", **group["template"]["metadata"]},
         "spec": group["template"]["spec"]}
        for group in groups(manifest)
    ]  # fmt: skip
    for document in [*core, *shells]:
        kubernetes_validate.validate(document, "1.34", strict=True)
    broken = copy.deepcopy(shells[0])
    broken["spec"]["automountServiceAcountToken"] = broken["spec"].pop("automountServiceAccountToken")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, "1.34", strict=True)


def test_prometheus_finds_every_pod_and_is_let_in(manifest):
    [monitor] = documents(KUBERNETES / "podmonitor.yaml")
    assert (monitor["apiVersion"], monitor["kind"]) == ("monitoring.coreos.com/v1", "PodMonitor")
    assert monitor["metadata"]["namespace"] == manifest["metadata"]["namespace"]
    [endpoint] = monitor["spec"]["podMetricsEndpoints"]
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    for group in groups(manifest):
        assert wanted <= group["template"]["metadata"]["labels"].items()
        [container] = group["template"]["spec"]["containers"]
        assert {"name": endpoint["port"], "containerPort": 8080} in container["ports"]


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
