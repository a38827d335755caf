"""Tools for agents, asked by the protocol's own client over a pipe."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from repository import ROOT, RunPlanner

from planner import Planner
from planner.cli.mcp.tools import TOOLS, call, schema_of
from planner.engine.advice.advice import Advice
from planner.engine.advice.observation import Observed
from planner.errors import UserError

GENERATE = {"model": "llama-3.1-8b", "task": "generate", "batch": 1, "input_tokens": 64, "output_tokens": 8}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Planner:
    return Planner(config=tmp_path_factory.mktemp("config"), state=tmp_path_factory.mktemp("state"), basis="spec")


@pytest.mark.process
async def test_the_protocols_client_lists_the_tools_and_gets_a_plan(tmp_path: Path) -> None:
    sdk = pytest.importorskip("mcp")
    arguments = ["-m", "planner", "--config", str(tmp_path), "--state", str(tmp_path), "mcp", "--basis", "spec"]
    server = sdk.StdioServerParameters(command=sys.executable, args=arguments, env={**os.environ, "PYTHONPATH": str(ROOT)})
    asked = {"workload": "llama-3.1-8b-lora", "changes": {"max_gpus": 1}, "gpus": ["L4", "L40S"], "top": 2}
    # its default is what stderr was when another test imported the SDK
    transport = importlib.import_module("mcp.client.stdio").stdio_client(server, errlog=sys.__stderr__)
    async with sdk.Client(transport) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        plan = await client.call_tool("plan", asked)
        wrong = await client.call_tool("plan", {"workload": "llama-3.1-8b-lora", "gpu": "L4"})
        again = await client.call_tool("offers", {"gpu": "L4", "top": 1})
    assert set(tools) == {"plan", "estimate", "memory", "offers", "rightsize"}
    assert all(tool.input_schema["type"] == "object" for tool in tools.values())
    assert not plan.is_error
    assert plan.structured_content["rows"][0]["rank"] == 1
    assert [row["gpu"] for row in plan.structured_content["rows"]] == ["L40S", "L40S", "L4"], (
        "a GPU asked for by name is shown, fits or not"
    )
    assert "| 1 |" in plan.content[0].text
    assert wrong.is_error
    assert "'gpus'" in wrong.content[0].text
    assert again.structured_content["offers"][0]["gpu"] == "L4"


def test_schemas_are_those_of_the_wire_types() -> None:
    for tool in TOOLS:
        for kind in (tool.given, tool.answer):
            schema = schema_of(kind)
            assert schema["type"] == "object"
            assert set(schema["properties"]) == {field.encode_name for field in msgspec.structs.fields(kind)}
            assert set(_references(schema)) <= set(schema.get("$defs", {}))
    plan = schema_of(TOOLS[0].given)
    assert "train_tokens" in plan["$defs"]["Workload"]["properties"]


def _references(schema: Any) -> list[str]:
    """Names of the definitions that a schema refers to."""
    if isinstance(schema, dict):
        own = [schema["$ref"].removeprefix("#/$defs/")] if "$ref" in schema else []
        return own + [name for inner in schema.values() for name in _references(inner)]
    return [name for inner in schema for name in _references(inner)] if isinstance(schema, list) else []


def test_every_answer_fits_its_schema(asked: Planner) -> None:
    observed = msgspec.to_builtins(
        Observed(gpu="L4", seconds=60.0, readings=60, busy=0.1, memory_used_bytes=2e9, memory_total_bytes=24e9)
    )
    given: dict[str, dict[str, Any]] = {
        "plan": {"workload": GENERATE, "gpus": ["L4"]},
        "estimate": {"requests": [{**GENERATE, "gpu": "L4"}]},
        "memory": {"workload": GENERATE, "gpu": "L4"},
        "offers": {"gpu": "L4", "provider": "runpod"},
        "rightsize": {"observed": [observed]},
    }
    for tool in TOOLS:
        answered = call(asked, tool.name, given[tool.name])
        assert isinstance(answered.data, tool.answer)
        assert answered.text
    advice = call(asked, "rightsize", given["rightsize"]).data
    assert isinstance(advice, Advice)
    assert advice.gpus[0].observed.gpu == "L4"


@pytest.mark.parametrize(
    ("tool", "given", "said"),
    [
        ("plan", {"workload": "../secret.toml"}, "is a path"),
        ("plan", {"workload": "llama-3.1-8b-lra"}, "llama-3.1-8b-lora"),
        ("plan", {"workload": {**GENERATE, "task": "generat"}}, "'generate'"),
        ("estimate", {"requests": [GENERATE]}, "gpu: missing"),
        ("memory", {"workload": GENERATE, "gpu": "H10"}, "H100 SXM5 80GB"),
        ("forecast", {}, "there are plan, estimate"),
    ],
    ids=str,
)
def test_wrong_calls_say_what_is_wrong(asked: Planner, tool: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as wrong:
        call(asked, tool, given)
    assert said in str(wrong.value)


def test_without_the_sdk_the_extra_is_named(run_planner: RunPlanner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    done = run_planner("mcp")
    assert done.returncode == 2
    assert "gpu-planner[mcp]" in done.stderr
