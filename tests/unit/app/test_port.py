# SPDX-License-Identifier: Apache-2.0
"""A port that cannot be had: one line, what is wrong and what to do."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from epsilens.app.server import _listen
from epsilens.errors import InputError

SERVE = [sys.executable, "-m", "epsilens", "serve", "--no-browser"]


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = subprocess.run(
            [*SERVE, "--state", str(tmp_path / "state"), "--port", str(port)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == (
        f"Error: `--port` must be free, but another program uses {port}. End that program, choose "
        "another port, or leave `--port` out.\n"
    )
    assert not (tmp_path / "state").exists()


def test_a_port_is_held_before_anything_else_is_done() -> None:
    with _listen(0) as first, pytest.raises(InputError, match="another program uses"):
        _listen(first.getsockname()[1])


@pytest.mark.parametrize(
    ("number", "words"), [(errno.EACCES, "keeps 80 for itself"), (errno.EINVAL, "refuses 80")]
)
def test_a_port_that_the_system_refuses_is_named(
    monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    class Refusing(socket.socket):
        def bind(self, address: object) -> None:
            raise OSError(number, "refused")

    monkeypatch.setattr(socket, "socket", Refusing)
    with pytest.raises(InputError, match=f"{words}.*choose another port"):
        _listen(80)
