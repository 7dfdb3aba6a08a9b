# SPDX-License-Identifier: Apache-2.0
"""Flower's SuperLink, with access control: `python -m epsilens.federated.flower.superlink TOKEN_FILE ...`.

Flower asks nobody for a name who submits a run or registers a node; whoever reached its port could
lead the federation. Here every such request must carry the coordinator's token.
"""

from __future__ import annotations

import hmac
import sys
from collections.abc import Sequence
from pathlib import Path

from flwr.common.constant import ACCESS_TOKEN_KEY
from flwr.superlink.auth_plugin.noop_auth_plugin import NoOpControlAuthnPlugin
from flwr.superlink.cli import flower_superlink as command

from epsilens.federated.flower.launch import end_with_parent


class CoordinatorOnly(NoOpControlAuthnPlugin):
    """Lets in who has the token, and nobody else.

    Parameters
    ----------
    token : bytes
    """

    def __init__(self, token: bytes) -> None:
        super().__init__()
        self._token = token

    def validate_tokens_in_metadata(
        self, metadata: Sequence[tuple[str, str | bytes]]
    ) -> tuple[bool, object]:
        """Return whether a request carries the token, and the one account there is."""
        given = dict(metadata).get(ACCESS_TOKEN_KEY, b"")
        sent = given if isinstance(given, bytes) else given.encode("utf-8", "replace")
        if not hmac.compare_digest(sent, self._token):
            return False, None
        account: tuple[bool, object] = super().validate_tokens_in_metadata(metadata)
        return account


def main(arguments: list[str]) -> None:
    """Run the SuperLink; the first argument is the file with the token."""
    end_with_parent()
    plugin = CoordinatorOnly(Path(arguments[0]).read_bytes())
    module = sys.modules[command.__module__]
    # Flower's own way to another plugin is closed in its free edition.
    module.load_control_authn_plugin = lambda: plugin  # type: ignore[attr-defined]
    sys.argv = ["flower-superlink", *arguments[1:]]
    command()


if __name__ == "__main__":
    main(sys.argv[1:])
