"""The command line of the worker."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from bench.study import AXES, DEPTH_LAWS


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the options; ends the process with a message where they are wrong."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure a device; JSON lines out, one message a line.")
    parser.add_argument(
        "--suite",
        default="quick",
        help="quick (calibrates the planner), standard (everything, in rounds), study (training steps), collectives or smoke (self-test)",
    )
    parser.add_argument("--device", default="auto", help="cpu, cuda:N, or auto: the first GPU torch can use, else the CPU")
    parser.add_argument("--fd", type=int, help="descriptor for the messages; default: standard output")
    parser.add_argument("--journal", metavar="PATH", help="append every result here as it is taken")
    parser.add_argument("--skip", nargs="*", default=[], metavar="ID", help="points not to measure")
    parser.add_argument("--skip-if", metavar="FINGERPRINT", help="skip them only where machine and software are these")
    parser.add_argument("--shapes", nargs="*", default=[], type=_shape, metavar="MxNxK", help="products to measure besides")
    parser.add_argument(
        "--ranks", type=int, help="GPUs or processes of the collectives (default: all GPUs; two processes on a CPU)"
    )
    parser.add_argument("--axis", choices=AXES, default="width", help="of the study: the model grows, or the batch")
    parser.add_argument(
        "--depth-law", default="printed", type=_depth_law, help="of the study: printed, log2, or a number of layers"
    )
    parser.add_argument("--vocabulary", type=int, help="of the study's models (default: as fits the device)")
    parser.add_argument("--wall-cap-s", type=float, help="end after this many seconds (default: as the suite says)")
    parser.add_argument("--done", nargs="*", default=[], metavar="ID", help="rounds an earlier worker of this run has measured")
    parser.add_argument("--never", nargs="*", default=[], metavar="ID", help="points this run is through with")
    parser.add_argument("--too-large", nargs="*", default=[], metavar="ID", help="the ones among them that ran out of memory")
    parser.add_argument("--elapsed-s", type=float, default=0.0, help="of the run, before this worker")
    parser.add_argument("--die-with-ui", action="store_true", help="stop when standard input ends")
    return parser.parse_args(arguments)


def _shape(text: str) -> tuple[int, int, int]:
    sizes = text.split("x")
    if len(sizes) != 3 or not all(size.isdigit() and int(size) > 0 for size in sizes):
        raise argparse.ArgumentTypeError(f"'{text}' is not m x n x k, like 1024x3072x1024")
    m, n, k = map(int, sizes)
    return m, n, k


def _depth_law(text: str) -> str:
    if text not in DEPTH_LAWS and not (text.isdigit() and int(text) > 0):
        raise argparse.ArgumentTypeError(f"'{text}' is not {', '.join(DEPTH_LAWS)} or a number of layers")
    return text
