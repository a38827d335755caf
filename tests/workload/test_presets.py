"""Model and workload presets: shipped ones load, the user's win, saving is whole, faults are all named."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from repository import ROOT, RunPlanner

from planner.errors import UserError
from planner.paths import presets_folder
from planner.schema import faults
from planner.session import Session
from planner.workload.models import ModelShelf
from planner.workload.presets import PresetShelf
from planner.workload.tasks import Lengths, Lora, Targets, Workload

WORKLOADS = presets_folder() / "workloads"


@pytest.fixture
def models() -> ModelShelf:
    return ModelShelf(presets_folder() / "models")


@pytest.fixture
def shelf(tmp_path: Path) -> PresetShelf:
    return PresetShelf(WORKLOADS, tmp_path)


def test_every_model_is_complete_and_its_own(models: ModelShelf) -> None:
    assert len(models.names()) >= 25
    taken: dict[str, str] = {}
    for name in models.names():
        model = models.find(name)
        assert model.name == name
        assert model.title
        assert model.source
        assert isinstance(model.config["model_type"], str)
        assert "vocab_size" in model.config.get("text_config", model.config)
        assert isinstance(model.config["tie_word_embeddings"], bool)
        for spelling in (name, *model.aliases):
            assert taken.setdefault(spelling.casefold(), name) == name, spelling


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("Qwen/Qwen3-8B", "qwen3-8b"),
        ("qwen/qwen3-8b", "qwen3-8b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("meta-llama/Meta-Llama-3.1-70B-Instruct", "llama-3.1-70b"),
        ("Llama-3.1-405B", "llama-3.1-405b"),
        ("mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"),
        ("openai-community/gpt2-xl", "gpt2-xl"),
    ],
)
def test_models_are_found_by_hugging_face_id(models: ModelShelf, spelling: str, name: str) -> None:
    assert models.find(spelling).name == name


def test_an_unknown_model_suggests_the_nearest(models: ModelShelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)  # as if it were not installed
    with pytest.raises(UserError, match="'Qwen/Qwen3-8B'"):
        models.config("Qwen/Qwen3-9B")


def test_a_config_file_is_a_model(models: ModelShelf, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "llama", "rope_scaling": None}))
    assert models.config(str(path)) == {"model_type": "llama", "rope_scaling": None}
    path.write_text("[1]")
    with pytest.raises(UserError, match="is not a JSON object"):
        models.config(str(path))
    with pytest.raises(UserError, match="cannot be read"):
        models.config(str(tmp_path / "absent.json"))


def offline(tmp_path: Path, model: str, *, library: bool = True) -> subprocess.CompletedProcess[str]:
    """The shelf asked for `model` in a process that may not use the network, with a cache of its own."""
    code = (
        "import sys\n" + ("" if library else "sys.modules['huggingface_hub'] = None\n") + "from planner.errors import UserError\n"
        "from planner.paths import presets_folder\n"
        "from planner.workload.models import ModelShelf\n"
        "try:\n"
        "    print(ModelShelf(presets_folder() / 'models').config(sys.argv[1])['hidden_size'])\n"
        "except UserError as error:\n"
        "    sys.exit(str(error))\n"
    )
    environment = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf"), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, model],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.process
def test_a_model_of_the_hub_is_read_from_its_cache(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    repository = tmp_path / "hf" / "hub" / "models--acme--tiny-8b"
    commit = "0" * 40
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(commit)
    (repository / "snapshots" / commit).mkdir(parents=True)
    (repository / "snapshots" / commit / "config.json").write_text('{"model_type": "llama", "hidden_size": 77}')
    found = offline(tmp_path, "acme/tiny-8b")
    assert (found.stdout, found.stderr) == ("77\n", "")


@pytest.mark.process
def test_a_model_that_cannot_be_fetched_says_what_to_do(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    found = offline(tmp_path, "Qwen/Qwen3-9B")
    assert found.returncode == 1
    assert "'Qwen/Qwen3-9B' is not in the catalogue" in found.stderr
    assert "HF_HUB_OFFLINE" in found.stderr
    assert "curl -L -o config.json https://huggingface.co/Qwen/Qwen3-9B/resolve/main/config.json" in found.stderr
    assert "'Qwen/Qwen3-8B'" in found.stderr


@pytest.mark.process
def test_without_the_library_the_message_names_it(tmp_path: Path) -> None:
    found = offline(tmp_path, "acme/tiny-8b", library=False)
    assert found.returncode == 1
    assert "pip install 'gpu-planner[hub]'" in found.stderr
    assert "https://huggingface.co/acme/tiny-8b/resolve/main/config.json" in found.stderr
    assert offline(tmp_path, "Qwen/Qwen3-8B", library=False).stdout == "4096\n"


def test_only_an_id_is_looked_up(models: ModelShelf) -> None:
    for text in ("not-a-model", "a/b/c", "a b/c", "acme/"):
        with pytest.raises(UserError, match=r"is not a known model|cannot be read"):
            models.config(text)


def test_a_directory_with_a_config_is_a_model(models: ModelShelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "mine" / "model"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "gpt2"}')
    monkeypatch.chdir(tmp_path)
    for spelling in (str(folder), "mine/model", "./mine/model", "mine/model/"):
        assert models.config(spelling) == {"model_type": "gpt2"}
    (tmp_path / "gpt2").mkdir()
    assert models.config("gpt2")["n_embd"] == 768  # the catalogue comes first
    with pytest.raises(UserError, match=r"gpt2/config\.json: .*cannot be read"):
        models.config("./gpt2")


def test_a_preset_names_a_directory_beside_it(shelf: PresetShelf, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text('{"model_type": "gpt2"}')
    path = tmp_path / "elsewhere.toml"
    path.write_text('model = "./mine"\ntask = "generate"\n')
    assert shelf.load(str(path)).workload.model == str(tmp_path / "mine")


def test_a_directory_given_on_the_command_line_is_planned(run_planner: RunPlanner, models: ModelShelf, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(models.config("gpt2")))
    mine = run_planner("plan", "llama-3.1-8b-lora", "--set", f"model={tmp_path}", "--set", "sequence=1024", "--json")
    known = run_planner("plan", "llama-3.1-8b-lora", "--set", "model=gpt2", "--set", "sequence=1024", "--json")
    assert mine.returncode == known.returncode == 0
    assert json.loads(mine.stdout)["rows"] == json.loads(known.stdout)["rows"]


def test_the_study_follows_its_law(models: ModelShelf) -> None:
    config = models.config("qwen3-study-w1024")
    assert config["hidden_size"] == 1024
    assert config["num_hidden_layers"] == round(0.77 * 10 - 2.5)
    assert models.config("qwen3-study-w256")["num_hidden_layers"] == round(0.77 * 8 - 2.5)


def test_every_shipped_preset_loads_and_names_a_model(shelf: PresetShelf, models: ModelShelf) -> None:
    assert len(shelf.names()) >= 12
    tasks = set()
    for name in shelf.names():
        preset = shelf.load(name)
        assert (preset.name, preset.origin) == (name, "shipped")
        assert preset.workload.title
        assert len(preset.workload.description) > 40
        assert isinstance(preset.workload.model, str)
        assert models.config(preset.workload.model)
        tasks.add(preset.workload.task)
    assert tasks >= {"train", "finetune", "generate", "serve"}


def test_the_default_is_the_service_of_1000_requests_a_minute(shelf: PresetShelf) -> None:
    workload = shelf.load("llama-3.1-70b-chat-service").workload
    assert workload.request_rate_per_s == pytest.approx(1000 / 60, rel=1e-4)
    assert workload.output_tokens == 200
    assert (workload.targets.p95_request_s, workload.targets.burst) == (5, 0.2)


def test_the_study_takes_1024_tokens_a_step(shelf: PresetShelf) -> None:
    workload = shelf.load("qwen3-study-1024-tokens").workload
    assert (workload.micro_batch or 0) * (workload.sequence or 0) == 1024
    assert (workload.recipe, workload.optimizer, workload.max_gpus) == ("amp", "adamw", 1)


FULL = Workload(
    title='A "quoted" title',
    description="Zeilen\nund Umlaute: äöü",
    model={"model_type": "llama", "hidden_size": 64, "rope_scaling": None, "eos": [1, 2]},
    task="finetune",
    lora=Lora(rank=4, targets=["q", "v"], base="nf4"),
    input_tokens=Lengths(mean=10.5, p95=40),
    concurrency="max",
    compile=False,
    train_tokens=1e9,
    targets=Targets(deadline_h=12, headroom=0.0),
    providers=["aws", "gcp"],
)


def test_what_is_saved_loads_the_same(shelf: PresetShelf, tmp_path: Path) -> None:
    path = shelf.save("mine", FULL)
    assert path == tmp_path / "presets" / "mine.toml"
    loaded = shelf.load("mine")
    assert loaded.origin == "user"
    assert isinstance(FULL.model, dict)
    assert loaded.workload.model == {key: value for key, value in FULL.model.items() if value is not None}
    assert loaded.workload.lora == FULL.lora
    assert loaded.workload.targets == FULL.targets
    assert loaded.workload.input_tokens == FULL.input_tokens
    assert (loaded.workload.title, loaded.workload.description) == (FULL.title, FULL.description)
    assert (loaded.workload.compile, loaded.workload.providers) == (False, ["aws", "gcp"])
    assert [found.name for found in path.parent.iterdir()] == ["mine.toml"]


@pytest.mark.parametrize("name", PresetShelf(WORKLOADS, Path("absent")).names())
def test_shipped_presets_survive_saving(shelf: PresetShelf, name: str) -> None:
    workload = shelf.load(name).workload
    shelf.save(name, workload)
    again = shelf.load(name)
    assert (again.origin, again.workload) == ("user", workload)


def test_a_lora_of_defaults_stays_a_lora(shelf: PresetShelf) -> None:
    shelf.save("plain", Workload(model="qwen3-8b", task="finetune", lora=Lora()))
    assert shelf.load("plain").workload.lora == Lora()


def test_the_users_preset_wins_and_is_listed_once(shelf: PresetShelf) -> None:
    mine = Workload(model="qwen3-8b", task="generate", title="mine")
    shelf.save("qwen3-study-small", mine)
    assert shelf.load("qwen3-study-small").workload.title == "mine"
    assert shelf.names().count("qwen3-study-small") == 1


def test_saving_asks_before_it_overwrites_and_keeps_comments(shelf: PresetShelf) -> None:
    path = shelf.save("mine", Workload(model="qwen3-8b", task="generate", batch=1, input_tokens=9))
    path.write_text("# why this one\n" + path.read_text().replace("batch = 1", "batch = 1  # one person"))
    changed = Workload(model="qwen3-14b", task="generate", batch=1)
    with pytest.raises(UserError, match="exists already"):
        shelf.save("mine", changed)
    shelf.save("mine", changed, overwrite=True)
    assert shelf.load("mine").workload == changed
    assert "# why this one" in path.read_text()
    assert "# one person" in path.read_text()


@pytest.mark.parametrize("name", ["", "a/b", "../up", ".hidden", "x.toml", "a b", "n" * 65])
def test_unusable_names_are_refused(shelf: PresetShelf, tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="cannot name a preset"):
        shelf.save(name, FULL)
    assert not list(tmp_path.rglob("*.toml"))


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "presets").write_text("a file where a folder should be")
    with pytest.raises(UserError, match="cannot be written"):
        PresetShelf(WORKLOADS, tmp_path).save("mine", FULL)


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("deadline_h", "Did you mean 'targets.deadline_h'?"),
        ("rank", "Did you mean 'lora.rank'?"),
        ("answer_tokens", "Did you mean 'rollout.answer_tokens'?"),
        ("tp", "unknown key here; a plan looks for the layout"),
        ("gpu", "gpus_considered"),
    ],
)
def test_a_key_at_the_wrong_place_is_shown_its_own(key: str, told: str) -> None:
    (problem,) = faults(Workload, {"model": "qwen3-8b", "task": "serve", key: 1}, "mine.toml")
    assert told in str(problem)


def test_a_broken_preset_names_every_fault_and_harms_no_other(shelf: PresetShelf, tmp_path: Path) -> None:
    folder = tmp_path / "presets"
    folder.mkdir()
    (folder / "broken.toml").write_text(
        'modle = "x"\ntask = "serv"\nmicro_batch = 2.5\nlora = { rnk = 4 }\n[targets]\np95_requst_s = 5\nburst = "much"\n'
    )
    (folder / "torn.toml").write_text("task = \n")
    assert {"broken", "torn", "llama-3.1-8b-lora"} <= set(shelf.names())
    with pytest.raises(UserError) as caught:
        shelf.load("broken")
    hints = {problem.key: problem.nearest for problem in caught.value.problems}
    assert hints["modle"][0] == "model"
    assert hints["task"] == ("serve",)
    assert hints["lora.rnk"] == ("rank",)
    assert hints["targets.p95_requst_s"][0] == "p95_request_s"
    assert {"model", "micro_batch", "targets.burst"} <= hints.keys()
    assert all(problem.where.endswith("broken.toml") for problem in caught.value.problems)
    with pytest.raises(UserError, match=r"torn\.toml: is not valid TOML.*line 1"):
        shelf.load("torn")


def test_a_preset_loads_from_a_path_with_the_model_beside_it(shelf: PresetShelf, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    path = tmp_path / "elsewhere.toml"
    path.write_text('model = "config.json"\ntask = "generate"\n')
    preset = shelf.load(str(path))
    assert (preset.name, preset.origin, preset.path) == ("elsewhere", "file", path)
    assert preset.workload.model == str(tmp_path / "config.json")
    with pytest.raises(UserError, match=r"absent\.toml: cannot be read"):
        shelf.load(tmp_path / "absent.toml")
    with pytest.raises(UserError, match=r"opened by its name alone\. Did you mean 'qwen3-30b-a3b-service'\?$"):
        shelf.load("presets/qwen3-30b-a3b-service.toml")
    with pytest.raises(UserError, match=r"is not a known preset.*llama-3\.1-8b-lora"):
        shelf.load("llama-3.1-8b-lorra")


@pytest.mark.parametrize(
    ("given", "why", "model"),
    [
        ("qwen3-14b", "is a model, not a preset", "qwen3-14b"),
        ("Qwen/Qwen3-14B", "is a model, not a preset", "Qwen/Qwen3-14B"),
        ("qwen3-14b-awq", "is a model, not a preset", "qwen3-14b-awq"),
        ("./mine/config.json", "is a model, not a preset", "./mine/config.json"),
        ("nobody/nothing-3b", "is no file here", "nobody/nothing-3b"),
        ("qwne3-14b", "is not a known preset; 'qwen3-14b' is a model", "qwen3-14b"),
    ],
)
def test_the_name_of_a_model_in_place_of_a_preset_is_told_how_to_plan_it(tmp_path: Path, given: str, why: str, model: str) -> None:
    presets = Session.open(config=tmp_path, state=tmp_path).presets
    with pytest.raises(UserError) as caught:
        presets.load(given)
    assert str(caught.value) == (
        f"preset: {given!r} {why}. A service of a model is planned with: gpu-planner plan --set model={model} --set task=serve"
    )


@pytest.mark.parametrize("given", ["task=serve", "model=Qwen/Qwen3-14B"])
def test_a_setting_in_place_of_a_preset_is_told_where_it_goes(shelf: PresetShelf, given: str) -> None:
    with pytest.raises(UserError, match=re.escape(f"is a setting, not a preset: --set {given}")):
        shelf.load(given)


def test_a_path_that_has_the_form_of_a_hub_id_is_read_where_there_is_a_file(
    shelf: PresetShelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "chat").write_text('model = "qwen3-8b"\ntask = "serve"\n')
    assert shelf.load("mine/chat").workload.model == "qwen3-8b"
    with pytest.raises(UserError, match=r"mine/none\.toml: cannot be read"):
        shelf.load("mine/none.toml")
