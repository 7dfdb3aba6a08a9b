"""A working process: nothing of it is left, and it cannot take all memory."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from epsilens.app import child
from epsilens.app.child import Child, StoppedError

pytestmark = pytest.mark.skipif(
    not Path("/proc").is_dir(), reason="looks at processes as Linux shows them"
)

STARTS_ANOTHER = """
import json, subprocess, sys, tempfile
other = subprocess.Popen(["sleep", "600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
for line in sys.stdin:
    print(json.dumps({"answer": {"other": other.pid, "at": tempfile.mkdtemp()}}), flush=True)
"""
IS_GREEDY = """
import os
from epsilens.app import engine, worker
import sys
os.sysconf = lambda name: int(sys.argv[1])
worker.SMALLEST_BOUND = 2**30
engine.Engine.answer = lambda self, task, progress: {"taken": len(bytearray(task["bytes"]))}
worker.main()
"""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("is_dead_already", [False, True])
def test_what_it_started_and_wrote_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_dead_already: bool
) -> None:
    monkeypatch.setattr(child, "COMMAND", [sys.executable, "-c", STARTS_ANOTHER])
    process = Child(tmp_path)
    told = process.ask({})
    assert Path(told["at"]).is_relative_to(tmp_path)
    assert is_running(told["other"])
    if is_dead_already:
        os.kill(process.pid, signal.SIGKILL)
        while process.is_alive:
            time.sleep(0.01)
    process.kill()
    end = time.monotonic() + 30
    while is_running(told["other"]) and time.monotonic() < end:
        time.sleep(0.01)
    assert not is_running(told["other"])
    assert not any(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="only there memory can be bounded")
@pytest.mark.parametrize(
    ("machine", "task"),
    [("1", {}), (str(2**20), {"task": "inspect", "path": __file__})],
    ids=["than the machine has", "than its table needs"],
)
def test_more_memory_ends_the_process_and_not_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine: str, task: dict[str, str]
) -> None:
    monkeypatch.setattr(child, "COMMAND", [sys.executable, "-c", IS_GREEDY, machine])
    process = Child(tmp_path)
    assert process.ask({"bytes": 2**20, **task}) == {"taken": 2**20}
    with pytest.raises(StoppedError):
        process.ask({"bytes": 2 * 2**30, **task})
    process.kill()
