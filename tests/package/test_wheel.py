from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.nightly
@pytest.mark.slow
def test_the_wheel_holds_all_that_runs_and_nothing_else(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "installed")
    source = ROOT / "src"
    wanted = {
        path.relative_to(source).as_posix()
        for path in (source / "epsilens").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name for name in names if not name.split("/")[0].endswith(".dist-info")} == wanted
    # Run from the wheel's own files, away from the checkout: survey, templates, scripts, fonts. With
    # few models, since test_decide.py tells the story in full.
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import epsilens.cli.demo as demo; demo.SHADOW_MODELS, demo.CHECK_REPEATS = 32, 2; "
            "from epsilens.cli import main; raise SystemExit(main(['demo', '-q']))",
        ],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "installed"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "demo" / "report.html").stat().st_size > 100_000
