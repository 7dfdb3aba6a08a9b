# SPDX-License-Identifier: Apache-2.0
"""A coordinator and its sites as real processes on this machine, taken down by their ids."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

SECONDS_TO_START = 300.0


class Deployment:
    """A server and sites that talk over TLS on loopback, each with its own folder and key."""

    def __init__(self, folder: Path, contract: Path) -> None:
        self.folder, self.contract = folder, contract
        self.coordinator = folder / "coordinator"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def site(self, number: int) -> Path:
        return self.folder / f"site-{number}"

    # --- Commands that end by themselves ---

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run `epsilens federate ...` to its end."""
        return subprocess.run(
            self._command(*arguments), capture_output=True, text=True, check=False, timeout=300
        )

    def do(self, *arguments: object) -> str:
        """Run a command that must succeed, and return what it says."""
        done = self.run(*arguments)
        if done.returncode:
            raise RuntimeError(f"{arguments}: {done.stderr}")
        return done.stdout

    def lead(self, operation: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run an operation at the coordinator."""
        return self.run(operation, *arguments, "--state", self.coordinator)

    @staticmethod
    def _command(*arguments: object) -> list[str]:
        return [sys.executable, "-m", "epsilens", "federate", *map(str, arguments)]

    # --- Processes that stay ---

    def start(self, name: str, *arguments: object) -> subprocess.Popen[bytes]:
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                self._command(*arguments),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        return self.processes[name]

    def start_server(self) -> None:
        known = self.log("server").count("listens at")
        arguments = ["--state", self.coordinator, "--schema", self.contract, "--port", self.port]
        self.start("server", "server", *arguments)
        self.wait_for("server", "listens at", more_than=known)

    def invite(self, number: int) -> None:
        """Make a site's key and let the coordinator answer it with an invitation."""
        self.do("key", "--state", self.site(number))
        invitation = self.folder / f"invitation-{number}.json"
        self.do(
            "register",
            self.site(number) / "site.pub",
            *("--state", self.coordinator, "--out", invitation),
        )

    def start_site(self, number: int, *arguments: object) -> None:
        """Start a site; the first time with its invitation, data and ε among the arguments."""
        self.start(f"site-{number}", "site", "--state", self.site(number), *arguments)

    def join(self, number: int, data: Path, epsilon: float, *arguments: object) -> None:
        """Start a site for the first time."""
        invitation = self.folder / f"invitation-{number}.json"
        first = ("--invitation", invitation, "--data", data, "--epsilon", epsilon)
        self.start_site(number, *first, *arguments)

    def log(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def wait_for(self, name: str, words: str, *, more_than: int = 0) -> None:
        """Wait until a process has said something once more."""
        until = time.monotonic() + SECONDS_TO_START
        while self.log(name).count(words) <= more_than:
            if time.monotonic() > until or self.processes[name].poll() is not None:
                raise RuntimeError(f"{name} did not say {words!r}: {self.log(name)}")
            time.sleep(0.05)

    def wait_online(self, *numbers: int) -> None:
        for number in numbers:
            self.wait_for(f"site-{number}", "Online")

    def kill(self, name: str) -> None:
        """Kill a process without a warning."""
        self.processes[name].kill()
        self.processes.pop(name).wait()

    def end(self) -> None:
        """Ask all processes to end, sites first, and wait until they have."""
        for name in sorted(self.processes, reverse=True):
            self.processes[name].send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes.clear()
