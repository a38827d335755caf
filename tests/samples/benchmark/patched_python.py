"""An interpreter in which one module of the benchmark differs; nothing of it is in the program."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

PATCH = """
import importlib.abc, importlib.util, sys

class Patched(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != {module!r}:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module
        def exec_module(module):
            load(module)
            exec({body!r}, vars(module))
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Patched())
"""


def patched_python(folder: Path, module: str, body: str) -> Path:
    """The interpreter of a new environment in `folder` with this one's packages; `body` is executed in `module` once that is loaded."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = (folder / "lib").glob("python*/site-packages")
    (site / "patched_benchmark.py").write_text(PATCH.format(module=module, body=body))
    # no sitecustomize.py: a distribution may have one of its own, which comes before
    (site / "packages.pth").write_text(sysconfig.get_path("purelib") + "\nimport patched_benchmark\n")
    return folder / "bin" / "python"
