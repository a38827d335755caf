"""Write docs/evidence/accuracy.md from its template: the result of `gpu-planner validate FOLDER`, and the fit of the ceilings.

    scripts/calibration/accuracy.py FOLDER [--operators FOLDER] [--out FILE]

FOLDER holds published measurements (docs/evidence/validation.md). `--operators`: the folder that scripts/calibration/fit_ceilings.py reads;
with it, the error of each GPU when it is left out of the fit is written too. The diagram of nominal and observed shares is written next to the page.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import subprocess
import sys
from pathlib import Path
from string import Template
from typing import Any

import tomli
from fit_ranges import residuals_of, split
from fitting import ROOT, markdown_table, options_of, plain_session
from ranges.out_of_sample import classes_table, kinds_table, less_said_table, observed, reliability_svg, reliability_table
from ranges.unseen import sources_left_out

import planner

TEMPLATE = Path(__file__).parent / "pages" / "accuracy.md"
PUBLIC = ROOT / "presets" / "ceilings" / "public.toml"
FITS = {"gemm_error": "matrix products", "attention_error": "prompt attention", "decode_error": "decode attention"}
FITS |= {"collective_error": "collectives"}
LEFT_OUT = re.compile(
    r"(?P<gpu>.+?) +left out +median (?P<median>\S+) p90 (?P<p90>\S+) +\(bias (?P<bias>\S+); spec sheet alone (?P<spec>\S+)\)"
)
FEW = 12


def validated(folder: Path, form: str) -> str:
    """Output of the command in that form, without this user's own measurements."""
    command = [sys.executable, "-m", "planner", "validate", str(folder), form]
    nowhere = str(ROOT / "build" / "no-state")
    done = subprocess.run([*command[:3], "--state", nowhere, *command[3:]], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr.strip() or f"validate ended with {done.returncode}")
    return done.stdout


def ceilings_table() -> str:
    """The residuals of the fitted ceilings."""
    records = [record for record in tomli.loads(PUBLIC.read_text(encoding="utf-8"))["ceilings"] if "gemm_error" in record]
    rows = [
        [record["gpu"], *(f"{one['median']:.1%}, {one['p90']:.0%}" if (one := record.get(key)) else "—" for key in FITS)]
        for record in records
    ]
    return markdown_table(["GPU", *FITS.values()], rows) + "\n"


def left_out_table(operators: Path | None) -> str:
    """Each GPU predicted by the mean of the others' parameters, as scripts/calibration/fit_ceilings.py reports it."""
    if operators is None:
        return ""
    script = [sys.executable, str(Path(__file__).with_name("fit_ceilings.py")), str(operators)]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=True)
    found = [match for line in done.stderr.splitlines() if (match := LEFT_OUT.match(line))]
    rows = [[match["gpu"], match["median"], match["p90"], match["bias"], match["spec"]] for match in found]
    text = "Each GPU left out of the fit, its bf16 matrix products predicted with the mean of the other GPUs' efficiencies:"
    return f"\n{text}\n\n{markdown_table(['GPU', 'median', 'p90', 'bias', 'data sheet alone'], rows)}\n"


def out_of_sample(folder: Path, diagram: Path) -> dict[str, str]:
    """The tables with sources, generations and classes left out; writes the diagram."""
    found = [sources_left_out(group) for group in split(residuals_of(plain_session(), folder))]
    points = observed(found)
    diagram.write_text(reliability_svg(points), encoding="utf-8")
    return {
        "left_out_kinds": kinds_table(found),
        "left_out_classes": classes_table(found),
        "less_said": less_said_table(found),
        "reliability": reliability_table(points),
    }


def remarks(found: dict[str, Any]) -> str:
    """Rows that were not used, by reason, the most frequent first."""
    not_asked = list(found.get("not_asked", {}).items())
    reasons = "; ".join(f"{reason} ({count})" for reason, count in not_asked[:FEW])
    refused = sum(found.get("refused", {}).values())
    more = sum(count for _, count in not_asked[FEW:])
    return f"Rows not compared: {reasons}; other reasons ({more}). Experiments the planner has no format for: {refused}."


def main() -> None:
    """Write the page."""
    options = options_of(__doc__)
    options.add_argument("--operators", type=Path)
    options.add_argument("--out", type=Path, default=ROOT / "docs" / "evidence" / "accuracy.md")
    given = options.parse_args()
    folder = given.folder.resolve()
    found = json.loads(validated(folder, "--json"))
    page = Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        date=dt.datetime.now(dt.UTC).date().isoformat(),
        version=planner.__version__,
        folder=found["folder"],
        experiments=f"{found['experiments']:,}",
        values=f"{sum(kind['n'] for kind in found['kinds']):,}",
        tables=validated(folder, "--markdown").replace("### ", "## ").rstrip() + "\n",
        remarks=remarks(found),
        ceilings=ceilings_table(),
        left_out=left_out_table(given.operators),
        **out_of_sample(folder, given.out.with_name("reliability.svg")),
    )
    given.out.write_text(page.rstrip() + "\n", encoding="utf-8")
    print(given.out.relative_to(ROOT) if given.out.is_relative_to(ROOT) else given.out)


if __name__ == "__main__":
    main()
