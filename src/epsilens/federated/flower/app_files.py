# SPDX-License-Identifier: Apache-2.0
"""The files of our Flower app: two lines of code that name what is installed anyway."""

from __future__ import annotations

# Flower reads the text of a component and looks for an assignment.
_COMPONENT = """\
from epsilens.federated.flower import {module}

app = {module}.app
"""

APP_FILES = {
    "pyproject.toml": """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "epsilens-federation"
version = "1.0.0"
description = "A federation whose sites may change their mind"
license = "Apache-2.0"
dependencies = []

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "epsilens"

[tool.flwr.app.components]
serverapp = "epsilens_federation.server:app"
clientapp = "epsilens_federation.client:app"

[tool.flwr.app.config]
plan = ""
""",
    "epsilens_federation/__init__.py": '"""The federation of epsilens as a Flower app."""\n',
    "epsilens_federation/server.py": _COMPONENT.format(module="server_app"),
    "epsilens_federation/client.py": _COMPONENT.format(module="client_app"),
}
"""Path and text of every file."""
