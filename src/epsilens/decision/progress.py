# SPDX-License-Identifier: Apache-2.0
"""One progress of a decision about a model that is trained again: its steps take very different times."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from epsilens._types import Progress
from epsilens.whatif.curve import FIRST_NODES, FIRST_STEP, MOST_NODES, NEXT_STEP

COMPARE_SECONDS = 10.0
"""About what looking at the other mechanisms takes."""
_MOST_ROUNDS = MOST_NODES - FIRST_NODES
_LEAST = 0.5
_ENOUGH = 0.1
"""Share of a step from which on its own pace tells how long it takes."""


@dataclass
class DecisionProgress:
    """Turns the progress of the steps into one, in milliseconds that have passed and that are expected.

    What is expected follows the pace of the trainings that are done. How often ε are added to the curve is
    not known before: half of what is possible is expected.

    Parameters
    ----------
    progress : callable
        Is told (milliseconds passed, milliseconds in all, "decide").
    round_seconds : float
        Expected time of training at one more ε.
    curve_seconds : float
        Time after which no ε is added to the curve.
    attack_seconds : float
        Time for the attack.
    compare_seconds : float
        Time for the other mechanisms.
    clock : callable
        Seconds.

    Examples
    --------
    >>> seconds = iter([0.0, 5.0, 10.0, 12.0])
    >>> told = DecisionProgress(print, round_seconds=2.0, curve_seconds=40.0,
    ...                         attack_seconds=60.0, clock=lambda: next(seconds))
    >>> told(1, 2, FIRST_STEP)
    5000 83333 decide
    >>> told(2, 2, FIRST_STEP)
    10000 83333 decide
    >>> told(1, 2, NEXT_STEP)
    12000 86500 decide
    """

    progress: Progress
    round_seconds: float
    curve_seconds: float
    attack_seconds: float
    compare_seconds: float = COMPARE_SECONDS
    clock: Callable[[], float] = time.monotonic
    _started: float = field(init=False)
    _began: float = field(init=False)
    """When the step that runs began."""
    _step: str = field(default=FIRST_STEP, init=False)
    _n_rounds: int = field(default=0, init=False)
    """Rounds of the curve that are finished."""
    _last: int = field(default=0, init=False)
    _before: float = field(init=False)
    """When progress was told last, and of how much."""

    def __post_init__(self) -> None:
        self._started = self._began = self._before = self.clock()

    def __call__(self, done: int, total: int, what: str) -> None:
        """Tell the progress of a decision what a step tells."""
        now = self.clock()
        step = what if what in (FIRST_STEP, NEXT_STEP, "attack") else "compare"
        if step != self._step or (step == NEXT_STEP and done < self._last):
            if self._step == NEXT_STEP:
                self._n_rounds += 1
                self.round_seconds = max(self._before - self._began, 1e-3)
            self._step, self._began = step, self._before
        self._last, self._before = done, now
        share, spent = min(done / max(total, 1), 1.0), now - self._began
        expected = {
            FIRST_STEP: (FIRST_NODES + 1) * self.round_seconds,
            NEXT_STEP: self.round_seconds,
            "attack": self.attack_seconds,
            "compare": self.compare_seconds,
        }
        left = (1.0 - share) * expected[step]
        if step == "compare":
            # Several things are computed, one after another.
            left = max(self.compare_seconds - spent, _LEAST)
        elif step == "attack":
            # Its time is planned; its own pace counts the more the more of it is done.
            left = spent * (1.0 - share) + (1.0 - share) ** 2 * expected[step]
        elif share >= _ENOUGH:
            left = spent * (1.0 - share) / share
        if step == FIRST_STEP:
            self.round_seconds = (spent + left) / (FIRST_NODES + 1)
        if step in (FIRST_STEP, NEXT_STEP):
            more = (_MOST_ROUNDS - self._n_rounds - (step == NEXT_STEP)) / 2
            possible = (self.curve_seconds - (now - self._started) - left) / self.round_seconds
            left += max(min(more, possible), step == FIRST_STEP) * self.round_seconds
        later = {FIRST_STEP: 0, NEXT_STEP: 0, "attack": 1, "compare": 2}[step]
        left += sum([self.attack_seconds, self.compare_seconds][later:])
        passed = int(1000 * (now - self._started))
        self.progress(passed, passed + int(1000 * left), "decide")
