# SPDX-License-Identifier: Apache-2.0
"""The library's messages in the words of the command line.

The library speaks to people who write Python: `max_loss_increase`, `math.inf`. Here the same
sentences name what is typed in a shell: `--max-loss-increase`, `inf`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["in_command_words"]

_OPTIONS = {
    "alpha": "--alpha",
    "explainer": "--explainer",
    "identity": "--identity",
    "keep": "--keep",
    "max_rows": "--max-rows",
    "scope": "--scope",
    "share": "--share",
    "batch": "--batch",
    "canaries": "--canaries",
    "claimed_delta": "--delta",
    "claimed_epsilon": "--epsilon",
    "clip": "--clip",
    "confidence": "--confidence",
    "delta": "--delta",
    "dimension": "--dimension",
    "directions": "--directions",
    "epochs": "--epochs",
    "hidden": "--hidden",
    "learning_rate": "--learning-rate",
    "max_attack_rate": "--max-attack-rate",
    "mechanism": "--mechanism",
    "n_canaries": "--canaries",
    "noise": "--noise",
    "norm": "--norm",
    "reference_run": "--reference-run",
    "selection": "--selection",
    "shadow_models": "--shadow-models",
    "bins": "--bins",
    "categorical": "--categorical",
    "categories": "--categories",
    "checkpoint": "--checkpoint",
    "correction": "--correction",
    "delimiter": "--delimiter",
    "drop": "--drop",
    "encoding": "--encoding",
    "epsilon": "--epsilon",
    "group": "--group",
    "groups": "--group",
    "inverse_hessian": "--inverse-hessian",
    "label": "--label",
    "max_loss_increase": "--max-loss-increase",
    "method": "--method",
    "missing": "--missing",
    "positive": "--positive",
    "protect": "--protect",
    "random_state": "--seed",
    "regularisation": "--regularisation",
    "repeats": "--repeats",
    "sample_weight": "--weight",
    "seconds": "--seconds",
    "seed": "--seed",
    "test_share": "--test-share",
    "weight": "--weight",
}
"""Arguments of the library and the options that set them."""

_PHRASES: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"`math\.inf`", "`inf`"),
    (r"[Pp]ass dependent_groups='warn'", "add `--allow-dependent-groups`"),
    (r"`?dependent_groups='warn'`?", "`--allow-dependent-groups`"),
    # `decide` estimates as well, but has no such option.
    (
        r"Take method='exact', or train again",
        "Take `epsilens whatif --method exact`, or train again",
    ),
    (r"again to be sure: method='retrain'", "again to be sure: `epsilens whatif --method retrain`"),
    (r"`?\binverse_hessian='(\w+)'`?", r"`--inverse-hessian \1`"),
    (r"`?\bmechanism='(\w+)'`?", r"`--mechanism \1`"),
    (r"`?\bmethod=(?:'(\w+)'|\"(\w+)\")`?", r"`--method \1\2`"),
    (r"`?\bprotect=\[(?:'([^']*)'|\"([^\"]*)\")\]`?", r"`--protect \1\2`"),
    (r"`categories`, or by a categorical dtype", r"`--categories`"),
    # A simulation has no such option: the contract that it can be given has.
    (r"Declare them with `scales`", "Declare them with `epsilens federate schema --scale`"),
    (r" \(on the command line: (--[^()]*)\)", r" (`\1`)"),
    (r"`epsilon of column ([^`]*)`", r"`--epsilon` of column \1"),
    # An expression is quoted as it was typed, even where it is a single word.
    (
        rf"(?<!expression )`({'|'.join(sorted(_OPTIONS, key=len, reverse=True))})`",
        lambda found: f"`{_OPTIONS[found[1]]}`",
    ),
)
"""What the library writes, and what a user of the command line would type instead; in order."""


def in_command_words(message: str) -> str:
    """Say a message of the library as a user of the command line would type it.

    Parameters
    ----------
    message : str
        An error, a warning or a note.

    Returns
    -------
    str
        The same with options instead of Python names; other text is left as it is.

    Examples
    --------
    >>> in_command_words("`epsilon` must be greater than 0. Use `math.inf` for no privacy.")
    '`--epsilon` must be greater than 0. Use `inf` for no privacy.'
    """
    for pattern, replacement in _PHRASES:
        message = re.sub(pattern, replacement, message)
    return message
