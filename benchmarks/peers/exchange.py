# SPDX-License-Identifier: Apache-2.0
"""What a benchmark and a peer's program tell each other: a problem as .npz, the answers as JSON.

A peer runs under its own Python, so this file needs nothing but NumPy. The model is given trained:
`theta` minimises (1/n) Σ log(1 + e^s) − y s + (penalty/2) ‖θ‖², s = Xθ, without an intercept.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import os
import platform
import resource
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

SCHEMA = 1
WARM_UP_ROWS = 400
_RESIDENT = "largest resident set while computing, above the resident set before"


@dataclass(frozen=True)
class Problem:
    """Training and test data, who is randomised, and how much.

    Attributes
    ----------
    X, X_test : array of shape (n, p), (m, p)
    y, y_test : array of 0.0 and 1.0
    groups : array of bool, shape (n_groups, n)
    epsilon : array of shape (n_epsilon,)
    penalty : float
        λ of the mean loss.
    theta : array of shape (p,)
        The converged model.
    """

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    groups: np.ndarray
    epsilon: np.ndarray
    penalty: float
    theta: np.ndarray

    @property
    def flip_probability(self) -> np.ndarray:
        """How often a binary label is reported wrongly, at every ε."""
        return 1.0 / (1.0 + np.exp(self.epsilon))

    @property
    def n_cells(self) -> int:
        return len(self.groups) * len(self.epsilon)

    def head(self, rows: int) -> Problem:
        """Return the same question about the first records."""
        return replace(
            self,
            X=self.X[:rows].copy(),
            y=self.y[:rows].copy(),
            X_test=self.X_test[:rows].copy(),
            y_test=self.y_test[:rows].copy(),
            groups=self.groups[:, :rows].copy(),
        )

    def cells(self, contributions: np.ndarray) -> np.ndarray:
        """Return group sums of one number a record, times the flip probability at every ε."""
        return np.outer(self.groups @ contributions, self.flip_probability)

    def save(self, file: Path) -> None:
        np.savez(file, **asdict(self))

    @classmethod
    def load(cls, file: Path) -> Problem:
        with np.load(file) as arrays:
            fields = {name: arrays[name] for name in arrays.files}
        return cls(**{**fields, "penalty": float(fields["penalty"])})


@dataclass(frozen=True)
class Answer:
    """What one method of one library computed, and what it took.

    Attributes
    ----------
    library, version, method : str
    calls : str
        The functions that were called.
    excluded : str
        What the seconds leave out.
    wall_seconds, cpu_seconds : list of float
        One entry a repetition.
    peak_bytes : int
        Memory above the data; `memory` says how it was measured.
    values : list of list of float
        A row a group, a column an ε; None where a cell was not computed.
    notes : dict
        What else is worth knowing, such as the tolerance that was used.
    """

    library: str
    version: str
    method: str
    calls: str
    wall_seconds: list[float]
    cpu_seconds: list[float]
    peak_bytes: int
    values: list[list[float | None]]
    excluded: str = "training"
    memory: str = _RESIDENT
    threads: int = 1
    notes: dict[str, object] = field(default_factory=dict)
    schema: int = SCHEMA
    python: str = platform.python_version()

    def __post_init__(self) -> None:
        if self.schema != SCHEMA:
            raise ValueError(f"answers of schema {SCHEMA} are read, got {self.schema}.")
        if not self.wall_seconds or len(self.wall_seconds) != len(self.cpu_seconds):
            raise ValueError("wall and CPU seconds must be as many as each other, at least one.")
        if min(self.wall_seconds) <= 0:
            raise ValueError("a computation must take longer than 0 seconds.")

    @property
    def array(self) -> np.ndarray:
        """The values, NaN where a cell was not computed."""
        return np.array(self.values, dtype=float)


@dataclass(frozen=True)
class Method:
    """A way to the 300 numbers.

    Attributes
    ----------
    calls : str
        The functions that are called.
    prepare : callable
        Problem to whatever `compute` takes; not timed: data in the library's own form and the
        trained model.
    compute : callable
        What `prepare` gave to an array of shape (n_groups, n_epsilon), NaN where not computed.
    excluded : str
        What the seconds leave out.
    notes : callable
        What `prepare` gave to what else is worth knowing; called at the end, not timed.
    """

    calls: str
    prepare: Callable[[Problem], object]
    compute: Callable[[object], np.ndarray]
    excluded: str = "training"
    notes: Callable[[object], dict[str, object]] = lambda prepared: {}


def write_answers(file: Path, answers: list[Answer]) -> None:
    """Write what a peer computed."""
    file.write_text(json.dumps([asdict(answer) for answer in answers]) + "\n")


def read_answers(file: Path) -> list[Answer]:
    """Read what a peer computed.

    Raises
    ------
    ValueError
        If the file does not hold answers of this schema.
    """
    try:
        return [Answer(**entry) for entry in json.loads(file.read_text())]
    except TypeError as error:
        raise ValueError(f"not the answers of a peer: {error}") from None


def measure(method: Method, problem: Problem, *, repeats: int) -> dict[str, object]:
    """Run a method on a small part, so that everything is loaded, and then on the whole."""
    small = problem.head(min(WARM_UP_ROWS, len(problem.X)))
    method.compute(method.prepare(small))
    prepared = method.prepare(problem)
    wall, cpu, peak, how = [], [], 0, _RESIDENT
    for repeat in range(repeats):
        with _peak_memory() as memory:
            process, started = time.process_time(), time.perf_counter()
            values = method.compute(prepared)
            wall.append(time.perf_counter() - started)
            cpu.append(time.process_time() - process)
        if repeat == 0:  # later ones may reuse what the first has taken
            peak, how = memory["bytes"], memory["how"]
    return {
        "wall_seconds": wall,
        "cpu_seconds": cpu,
        "peak_bytes": peak,
        "memory": how,
        "values": [[None if np.isnan(v) else float(v) for v in row] for row in values],
        "notes": method.notes(prepared),
    }


@contextlib.contextmanager
def _peak_memory() -> Iterator[dict]:
    """Watch the resident set; without Linux's files, what Python and NumPy allocate."""
    result: dict = {"bytes": 0, "how": _RESIDENT}
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # freed memory that is kept would hide what comes now
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts anew
        before = _status("VmRSS")
    except OSError:
        result["how"] = "largest total that Python and NumPy allocated (tracemalloc)"
        tracemalloc.start()
        yield result
        result["bytes"] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return
    yield result
    result["bytes"] = max(0, _status("VmHWM") - before)


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return 1024 * int(line.split()[1])
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _stay_on(n_cores: int) -> None:
    """Keep to so many cores, whatever threads a library starts."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:n_cores])


def main(library: str, methods: Mapping[str, Method]) -> None:
    """Answer a problem with some of a library's methods; the whole program of a peer."""
    parser = argparse.ArgumentParser(description=f"First-order influence with {library}.")
    parser.add_argument("--problem", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", choices=tuple(methods), default=list(methods))
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    settings = parser.parse_args()
    _stay_on(settings.threads)
    problem = Problem.load(settings.problem)
    answers = []
    for name in settings.methods:
        method = methods[name]
        result = measure(method, problem, repeats=settings.repeats)
        answers.append(
            Answer(
                library=library,
                version=version(library),
                method=name,
                calls=method.calls,
                excluded=method.excluded,
                threads=settings.threads,
                **result,
            )
        )
    write_answers(settings.out, answers)
