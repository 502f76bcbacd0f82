"""The files for Slurm and Kubernetes: their syntax, and that the options in them exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import yaml

from unrolled.training import Recipe

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "examples"


def options_after_train(text):
    """The words with two dashes behind `unrolled train`, and in what is handed to it."""
    handed = re.findall(r"(?:what=\(|set -- )([^;\n]*?)(?:\)|;)", text)
    called = re.findall(r"-m unrolled train (.*)", text)
    return set(re.findall(r"--([a-z-]+)", " ".join([*handed, *called])))


def assert_known(text):
    found = options_after_train(text)
    assert {"resume", "out", "processes", "log-json"} == found
    fields = {name.replace("_", "-") for name in Recipe.model_fields}
    assert found - {"resume", "out", "log-json"} <= fields


def test_the_slurm_script_is_a_script():
    path = FOLDER / "slurm.sh"
    checked = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    text = path.read_text(encoding="utf-8")
    settings = dict(re.findall(r"^#SBATCH --([a-z-]+)(?:=(\S+))?$", text, re.MULTILINE))
    assert len(settings) == text.count("#SBATCH")
    nodes, processes = int(settings["nodes"]), int(re.search(r"--nproc-per-node (\d+)", text)[1])
    assert int(settings["gpus-per-node"]) == processes
    assert f"--processes {nodes * processes}" in text
    assert_known(text)


def test_a_broken_script_is_found(tmp_path):
    text = (FOLDER / "slurm.sh").read_text(encoding="utf-8")
    (tmp_path / "broken.sh").write_text(text.replace("fi\n", "\n", 1), encoding="utf-8")
    assert subprocess.run(["bash", "-n", str(tmp_path / "broken.sh")], capture_output=True, check=False).returncode


def test_the_kubernetes_file_says_what_a_job_needs():
    path = FOLDER / "kubernetes.yaml"
    service, job = yaml.safe_load_all(path.read_text(encoding="utf-8"))
    assert (service["kind"], job["kind"]) == ("Service", "Job")
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"]
    assert service["metadata"]["name"] == pod["subdomain"]
    assert service["spec"]["selector"].items() <= job["spec"]["template"]["metadata"]["labels"].items()
    (container,) = pod["containers"]
    (script,) = container["args"]
    assert f"--nnodes {spec['completions']} " in script
    assert f"--processes {spec['completions']};" in script
    assert f"{job['metadata']['name']}-0.{pod['subdomain']}" in script
    assert str(service["spec"]["ports"][0]["port"]) in script
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    checked = subprocess.run(["sh", "-n", "-c", script], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert_known(script)
