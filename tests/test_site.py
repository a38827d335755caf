"""The pages of the site: each stands once in the order of the pages, links lead to pages, and no page is left behind."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
import site_pages
from repository import ROOT

from planner.cli.schema import SUBJECTS


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "pages"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["site_pages.py", str(folder)])
        assert site_pages.main() == 0
    return folder


def test_every_page_stands_once_in_the_order(pages: Path) -> None:
    order = json.loads(pages.with_suffix(".yml").read_text())["nav"]
    named = [name for part in order for name in ([part] if isinstance(part, str) else next(iter(part.values())))]
    assert sorted(named) == sorted(str(path.relative_to(pages)) for path in pages.rglob("*.md"))
    assert {path.name for path in (ROOT / "docs").rglob("*.md")} - {"README.md"} <= {Path(name).name for name in named}


def test_links_lead_to_pages(pages: Path) -> None:
    for page in pages.rglob("*.md"):
        for found in site_pages.LINK.finditer(page.read_text()):
            target = found[3]
            assert "://" in target or target.startswith("mailto:") or (page.parent / target).is_file(), (page, target)


def test_the_commands_and_schemas_are_todays(pages: Path) -> None:
    commands = (pages / "reference/commands.md").read_text()
    assert "## gpu-planner replay" in commands
    schemas = {path.stem: json.loads(path.read_text()) for path in (pages / "schemas").glob("*.json")}
    assert set(schemas) == set(SUBJECTS)
    assert all(document["$schema"].startswith("https://json-schema.org/") for document in schemas.values())
    assert re.findall(r"\(\.\./schemas/(\w+)\.json\)", (pages / "reference/schemas.md").read_text()) == list(SUBJECTS)


def test_formulas_and_constants_are_those_of_the_code(pages: Path) -> None:
    from planner.engine.memory.layers import activations

    text = (pages / "reference/formulas.md").read_text()
    assert f"- `ROW_INDEX = {activations.ROW_INDEX}`: " in text
    assert "### Memory of the host that an offloaded job needs for each GPU\n" in text
    assert "arXiv:2101.06840" in text
    assert text.count("\n- `") > 100


def test_a_link_that_leads_nowhere_is_told(tmp_path: Path) -> None:
    page = tmp_path / "guide" / "x.md"
    page.parent.mkdir()
    page.write_text("[a](nowhere.md) ![b](../screenshot.svg) [c](../../presets/gpus) [d](https://example.org)")
    (tmp_path / "screenshot.svg").touch()
    wrong: list[str] = []
    assert site_pages.with_links(page, tmp_path, wrong) == "a ![b](../screenshot.svg) c [d](https://example.org)"
    assert wrong == ["guide/x.md: nowhere.md does not exist"]
