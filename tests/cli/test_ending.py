# SPDX-License-Identifier: Apache-2.0
"""A command that is told to end does so within seconds, wherever it is, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from epsilens._processes import running

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")

PROGRAM = """
import ctypes, subprocess, sys, time
import epsilens.cli.ending, epsilens.data

epsilens.cli.ending.SECONDS_TO_TIDY = 600.0

def locked(library):
    # A lock that is taken twice waits for ever, and no signal wakes it up.
    lock = ctypes.create_string_buffer(128)
    for _ in range(2):
        library.pthread_mutex_lock(lock)

def deaf():
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass

STUCK = {
    "in a library": lambda: locked(ctypes.CDLL(None)),
    "with the interpreter's lock": lambda: locked(ctypes.PyDLL(None)),
    "in code that swallows everything": deaf,
}

def write(text, path):
    with epsilens.data.replacing(path) as scratch:
        scratch.write_text(text[:10])
        child = subprocess.Popen(["sleep", "600"], stdout=-3, stderr=-3)
        print(child.pid, flush=True)
        STUCK[WHERE]()

epsilens.data.write_text = write
from epsilens.cli import main
sys.exit(main())
"""
INTERRUPTED = "Interrupted: nothing half-written was left behind.\n"
STOPPED = "Stopped: nothing half-written was left behind.\n"
MOST_SECONDS = 30
"""To catch a hang; it takes about two."""


def start(folder: Path, where: str) -> tuple[subprocess.Popen[str], int]:
    """Start a command that is stuck while it writes, and return it with the id of its child."""
    (folder / "a.csv").write_text("age,sex\n1,F\n2,M\n")
    words = ["inspect", str(folder / "a.csv"), "--out", str(folder / "out.json"), "--quiet"]
    process = subprocess.Popen(
        [sys.executable, "-c", f"WHERE = {where!r}\n{PROGRAM}", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    child = int(process.stdout.readline())
    time.sleep(0.5)  # the next line of the program is where it is stuck
    assert [file.suffix for file in folder.iterdir()].count(".part") == 1
    return process, child


@pytest.mark.parametrize(
    ("where", "number", "code", "line"),
    [
        ("in a library", signal.SIGTERM, 143, STOPPED),
        ("in a library", signal.SIGINT, 130, INTERRUPTED),
        # Nothing in the process can choose its exit code then: the system ends it.
        ("with the interpreter's lock", signal.SIGTERM, -signal.SIGKILL, STOPPED),
        ("with the interpreter's lock", signal.SIGINT, -signal.SIGKILL, INTERRUPTED),
    ],
)
def test_a_command_that_is_stuck_in_a_library_ends(
    where: str, number: signal.Signals, code: int, line: str, tmp_path: Path
) -> None:
    process, child = start(tmp_path, where)
    process.send_signal(number)
    _, errors = process.communicate(timeout=MOST_SECONDS)
    assert process.returncode == code
    assert errors == line
    assert [file.name for file in tmp_path.iterdir()] == ["a.csv"]
    assert child not in {found.pid for found in running()}


def test_a_second_control_c_ends_at_once_what_swallows_the_first(tmp_path: Path) -> None:
    process, child = start(tmp_path, "in code that swallows everything")
    process.send_signal(signal.SIGINT)
    # `timeout` and `make` pass on what the terminal has sent already: that is no second one.
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=1.0)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=MOST_SECONDS)
    assert process.returncode == 130
    assert errors == INTERRUPTED
    assert [file.name for file in tmp_path.iterdir()] == ["a.csv"]
    assert child not in {found.pid for found in running()}


def test_scratch_files_go_when_the_command_is_killed(tmp_path: Path) -> None:
    process, child = start(tmp_path, "in a library")
    process.kill()
    _, errors = process.communicate(timeout=MOST_SECONDS)
    os.kill(child, signal.SIGKILL)
    assert errors == ""
    assert [file.name for file in tmp_path.iterdir()] == ["a.csv"]


@pytest.mark.parametrize("name", ["SIGHUP", "SIGINT"])
def test_a_signal_that_is_ignored_stays_ignored(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age,sex\n1,F\n2,M\n")
    program = (
        "import os, signal, sys, epsilens.data\n"
        "real = epsilens.data.write_text\n"
        "def write(text, path):\n"
        f"    os.kill(os.getpid(), signal.{name})\n"
        "    real(text, path)\n"
        "epsilens.data.write_text = write\n"
        "from epsilens.cli import main\n"
        "sys.exit(main())\n"
    )
    words = ["inspect", str(tmp_path / "a.csv"), "--out", str(tmp_path / "out.json"), "--quiet"]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import signal; signal.signal(signal.{name}, signal.SIG_IGN)\n{program}",
            *words,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out.json").exists()


def test_a_process_that_is_forked_from_a_command_is_not_guarded(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age,sex\n1,F\n2,M\n")
    program = (
        "import os, signal, sys, time, epsilens.data\n"
        "real = epsilens.data.write_text\n"
        "def write(text, path):\n"
        "    other = os.fork()\n"
        "    if other == 0:\n"
        "        time.sleep(60)\n"
        "        os._exit(0)\n"
        "    time.sleep(0.2)\n"
        "    os.kill(other, signal.SIGTERM)\n"
        "    assert os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]) == -signal.SIGTERM\n"
        "    time.sleep(3)\n"
        "    real(text, path)\n"
        "epsilens.data.write_text = write\n"
        "from epsilens.cli import main\n"
        "sys.exit(main())\n"
    )
    words = ["inspect", str(tmp_path / "a.csv"), "--out", str(tmp_path / "out.json"), "--quiet"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
