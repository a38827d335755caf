"""What is shipped: the wheel holds the rooms and the data, and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile

import pytest
import tomli
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from repository import ROOT

import planner


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    pytest.importorskip("hatchling")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--no-build-isolation",
            "--no-deps",
            "--no-index",
            "--quiet",
            "--wheel-dir",
            str(folder),
            str(ROOT),
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return zipfile.ZipFile(built)


def test_the_wheel_holds_the_rooms_and_their_data(wheel: zipfile.ZipFile) -> None:
    shipped = set(wheel.namelist())
    tops = {name.partition("/")[0] for name in shipped}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"planner", "widgets", "bench", "presets"}
    for package in ("planner", "widgets", "bench", "presets"):
        sources = (path for path in (ROOT / package).rglob("*") if path.suffix in {".py", ".toml", ".tcss", ".json"})
        missing = {str(path.relative_to(ROOT)) for path in sources if "__pycache__" not in path.parts} - shipped
        assert not missing
    assert any(name.startswith("presets/workloads/") and name.endswith(".toml") for name in shipped)


def test_the_wheel_says_what_it_is(wheel: zipfile.ZipFile) -> None:
    (about,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    metadata = wheel.read(about).decode()
    assert "Name: gpu-planner\n" in metadata
    assert f"Version: {planner.__version__}\n" in metadata
    assert "Requires-Python: >=3.11\n" in metadata
    (entries,) = (name for name in wheel.namelist() if name.endswith("/entry_points.txt"))
    assert "gpu-planner = widgets.entry:main" in wheel.read(entries).decode()
    assert {"LICENSE", "NOTICE"} == {name.rpartition("/licenses/")[2] for name in wheel.namelist() if "/licenses/" in name}
    assert {"planner/py.typed", "planner/__init__.pyi"} <= set(wheel.namelist())


def test_torch_is_pinned_and_optional() -> None:
    project = tomli.loads((ROOT / "pyproject.toml").read_text())["project"]
    (torch,) = (need for need in project["optional-dependencies"]["bench"] if need.startswith("torch"))
    assert torch.startswith("torch==")
    assert not any(need.startswith("torch") for need in project["dependencies"])


def test_the_development_environment_is_pinned_by_hash() -> None:
    """Every dependency has one version that its bounds allow, and hashes; torch alone is left to the machine. No registry is named."""
    document = tomli.loads((ROOT / "pyproject.toml").read_text())
    wanted = [Requirement(one) for one in [*document["project"]["dependencies"], *document["dependency-groups"]["dev"]]]
    text = (ROOT / "requirements-dev.txt").read_text()
    entries = re.findall(r"^([\w.-]+)==([^ ;\\]+)[^\n]*\\\n((?:    --hash=sha256:[0-9a-f]{64}[ \\]*\n)+)", text, re.MULTILINE)
    pinned = {(name, version) for name, version, _ in entries}
    assert len(entries) == len(re.findall("==", re.sub(r" ;.*", "", text)))
    for one in wanted:
        versions = [version for name, version in pinned if name == canonicalize_name(one.name)]
        assert versions, one
        assert all(one.specifier.contains(version) for version in versions), one
    assert "torch" not in {name for name, _ in pinned}
    assert "/" not in text


def test_the_conda_recipe_says_what_the_project_says() -> None:
    import yaml

    recipe = yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text())
    project = tomli.loads((ROOT / "pyproject.toml").read_text())["project"]
    (name, script), *_ = project["scripts"].items()
    assert recipe["package"] == {"name": project["name"], "version": planner.__version__}
    assert recipe["build"]["python"]["entry_points"] == [f"{name} = {script}"]
    wanted = {f"python{project['requires-python']}", *project["dependencies"]}
    assert {one.replace(" ", "", 1) for one in recipe["requirements"]["run"]} == wanted
    assert (recipe["about"]["license"], recipe["about"]["license_file"]) == (project["license"], project["license-files"])
