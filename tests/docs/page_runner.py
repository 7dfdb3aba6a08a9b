# SPDX-License-Identifier: Apache-2.0
"""Run the code of a page as a reader would: in order, in one folder, each block after the one before.

A `python` block is run; a `text` block right after it is what it prints. One that begins with
`# release.py` is a file, and is written. A `console` block holds commands behind `$ ` and what they
print; `$ echo $?` shows the exit code, which is 0 otherwise. `...` stands for anything.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import re
import shlex
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from epsilens.cli import main
from epsilens.errors import ApproximationWarning, PrivacyLeakWarning

ROOT = Path(__file__).parents[2]
_FENCE = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```[ ]*$", flags=re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"<!-- not run: ([^\n]+) -->\n\Z")
_FILE = re.compile(r"# ([\w-]+\.py)\n")


@dataclass(frozen=True)
class Block:
    """A piece of code of a page."""

    page: str
    line: int
    language: str
    text: str
    prints: str | None = None
    mark: str | None = None

    @property
    def first(self) -> str:
        """Its first line, by which it is known."""
        return self.text.partition("\n")[0]


@dataclass(frozen=True)
class Command:
    """A command of a console block, and what the page says that it prints."""

    typed: str
    prints: str


def pages() -> list[Path]:
    """All pages that hold code."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if "_build" not in page.parts and blocks(page)]


def blocks(page: Path) -> list[Block]:
    """The code of a page, in its order."""
    text = page.read_text(encoding="utf-8")
    fences = list(_FENCE.finditer(text))
    found = []
    for place, fence in enumerate(fences):
        language = fence[1]
        if language not in {"python", "console"}:
            continue
        prints = None
        if language == "python" and place + 1 < len(fences):
            after = fences[place + 1]
            # Code may stand in a comment, where only its output is of interest.
            if after[1] == "text" and text[fence.end() : after.start()].strip() in {"", "-->"}:
                prints = after[2]
        mark = _MARK.search(text[: fence.start()])
        found.append(
            Block(
                page=page.relative_to(ROOT).as_posix(),
                line=text.count("\n", 0, fence.start()) + 1,
                language=language,
                text=fence[2],
                prints=prints,
                mark=mark[1] if mark else None,
            )
        )
    return found


def without_fences(text: str) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", text)


def commands(block: Block) -> Iterator[Command]:
    """The commands of a console block."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        typed, _, prints = re.sub(r"\\\n\s*", "", part).partition("\n")
        yield Command(typed, prints)


class Reader:
    """Somebody who tries one page."""

    def __init__(self) -> None:
        self.names: dict[str, object] = {"__name__": "__main__"}
        self.code = 0

    def run(self, block: Block) -> Iterator[tuple[str, str, str | None]]:
        """Give for each step what was run, what it printed, and what the page says."""
        if block.language == "console":
            for command in commands(block):
                yield command.typed, self.type(command.typed), command.prints
        elif file := _FILE.match(block.text):
            Path(file[1]).write_text(block.text, encoding="utf-8")
        else:
            yield block.first, self.execute(block.text, f"{block.page}:{block.line}"), block.prints

    def execute(self, text: str, where: str) -> str:
        """Run Python and return what it printed."""
        with _heard() as printed, warnings.catch_warnings():
            for ours in (PrivacyLeakWarning, ApproximationWarning):
                warnings.simplefilter("ignore", ours)
            exec(compile(text, where, "exec"), self.names)
        return printed.text

    def type(self, typed: str) -> str:
        """Run a command and return what it printed."""
        if typed == "echo $?":
            code, self.code = self.code, 0
            return f"{code}\n"
        assert self.code == 0, f"exit code {self.code}, and the page does not say so"
        name, *arguments = shlex.split(typed, comments=True)
        assert name == "epsilens", f"{name} cannot be run: mark the block and list it"
        with _heard() as printed:
            self.code = main(arguments)
        return printed.text


class _Terminal(io.TextIOWrapper):
    """Standard output and error together; documents are written to it as bytes."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    @property
    def text(self) -> str:
        return self.buffer.getvalue().decode()


@contextlib.contextmanager
def _heard() -> Iterator[_Terminal]:
    heard = _Terminal()
    with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
        yield heard


def differs(printed: str, said: str | None) -> str | None:
    """What is wrong about the page, if it says what is printed."""
    if said is None or not said.strip():
        return None
    checker, flags = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    example = doctest.Example("", said)
    if checker.check_output(said, printed, flags):
        return None
    return checker.output_difference(example, printed, flags | doctest.REPORT_NDIFF)


@contextlib.contextmanager
def own_modules() -> Iterator[None]:
    """Forget modules that a page wrote."""
    known, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    here = str(Path.cwd())
    for name in set(sys.modules) - known:
        module = sys.modules[name]
        # A folder without `__init__.py` is a package without a file.
        paths = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
        if any(str(path or "").startswith(here) for path in paths):
            del sys.modules[name]
    importlib.invalidate_caches()
