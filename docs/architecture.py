#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Measure the code and the trace of `epsilens decide`: `python docs/architecture.py`.

Writes docs/concepts/trace.json and, from it, docs/concepts/trace.md, which the page on the architecture
includes. Run it before a release, so that releases can be compared.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import json
import os
import sys
import tempfile
import threading
import tokenize
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType

SOURCE = Path(__file__).parents[1] / "src" / "epsilens"
RESULT = Path(__file__).parent / "concepts" / "trace.json"
PAGE = RESULT.with_suffix(".md")
QUESTION = "--label affair --protect affair --max-loss-increase 0.01 --max-attack-rate 0.95"
_NO_CODE = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
)


def code_lines(text: str) -> int:
    r"""Count the lines of a module without docstrings, comments and blank lines.

    Examples
    --------
    >>> code_lines('"Summary."\n\n# Why.\nx = (\n    1\n)\n')
    3
    """
    described: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for one in body if isinstance(body, list) else ():
            if isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant):
                described.update(range(one.lineno, (one.end_lineno or one.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - described)


def sizes(source: Path = SOURCE) -> dict[str, dict[str, int]]:
    """Count modules and lines of code of each package."""
    found: dict[str, dict[str, int]] = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).parts
        package = parts[0] if len(parts) > 1 else "epsilens"
        size = found.setdefault(package, {"modules": 0, "code_lines": 0})
        size["modules"] += 1
        size["code_lines"] += code_lines(path.read_text(encoding="utf-8"))
    return found


class Trace:
    """Functions of the package that a program calls, and how deep it goes.

    Imports, class bodies and comprehensions are no calls of functions and are left out.
    """

    def __init__(self, source: Path = SOURCE) -> None:
        self.prefix = f"{source}{os.sep}"
        self.calls: Counter[tuple[str, str]] = Counter()
        self.depth = 0
        self._ours: dict[CodeType, bool] = {}

    def _is_ours(self, code: CodeType) -> bool:
        if code not in self._ours:
            self._ours[code] = (
                code.co_filename.startswith(self.prefix)
                and bool(code.co_flags & inspect.CO_OPTIMIZED)
                and not code.co_name.startswith("<")
            )
        return self._ours[code]

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Take note of a call, as `sys.setprofile` asks."""
        if event != "call" or not self._is_ours(frame.f_code):
            return
        depth = 0
        below: FrameType | None = frame
        while below is not None:
            code = below.f_code
            if code.co_name == "<module>" and code.co_filename.startswith(self.prefix):
                return
            depth += self._is_ours(code)
            below = below.f_back
        self.depth = max(self.depth, depth)
        self.calls[code_place(frame.f_code, self.prefix)] += 1


def code_place(code: CodeType, prefix: str) -> tuple[str, str]:
    """Return the module of a function, as a path below the package, and its name."""
    return code.co_filename.removeprefix(prefix), code.co_qualname


def trace_decide() -> Trace:
    """Run `epsilens decide` on the bundled survey and watch it."""
    from epsilens.cli import main
    from epsilens.data import load_survey, write_table

    trace = Trace()
    typed = sys.argv
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "survey.csv"
        write_table(load_survey(), table)
        sys.argv = ["epsilens", "decide", str(table), *QUESTION.split()]
        shown = io.StringIO()
        threading.setprofile(trace)
        sys.setprofile(trace)
        try:
            with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
                main()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
            sys.argv = typed
    return trace


def measure() -> dict[str, object]:
    """Return what the page shows."""
    import epsilens

    trace = trace_decide()
    by_module: dict[str, list[str]] = {}
    for module, name in sorted(trace.calls):
        by_module.setdefault(module, []).append(name)
    return {
        "version": epsilens.__version__,
        "question": f"epsilens decide survey.csv {QUESTION}",
        "depth": trace.depth,
        "functions": len(trace.calls),
        "modules": by_module,
        "fits_of_the_model": trace.calls[("influence/baseline.py", "fit_baseline")],
        "sizes": sizes(),
    }


def page(result: dict) -> str:
    """Write the tables."""
    lines = [
        "<!-- Written by docs/architecture.py. -->",
        f"`{result['question']}` on the bundled survey, version {result['version']}: "
        f"{result['functions']} functions in {len(result['modules'])} modules, {result['depth']} calls "
        f"deep; the model is fitted {result['fits_of_the_model']} time(s).",
        "",
        "| package | modules | lines of code | modules in the trace | functions in the trace |",
        "|---|---:|---:|---:|---:|",
    ]
    totals = [0, 0, 0, 0]
    for package, size in sorted(result["sizes"].items()):
        called = {
            module: names
            for module, names in result["modules"].items()
            if (module.split("/")[0] if "/" in module else "epsilens") == package
        }
        row = [size["modules"], size["code_lines"], len(called), sum(map(len, called.values()))]
        totals = [a + b for a, b in zip(totals, row, strict=True)]
        lines.append(f"| `{package}` | " + " | ".join(f"{value:,}" for value in row) + " |")
    lines.append("| all | " + " | ".join(f"{value:,}" for value in totals) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, and write both files."""
    result = measure()
    RESULT.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(result), encoding="utf-8")
    sys.stdout.write(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
