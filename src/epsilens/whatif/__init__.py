# SPDX-License-Identifier: Apache-2.0
"""What would ε cost: the study, its answer, and the choice."""

from epsilens.whatif.result import Calibration, Choice, LossChangeEstimate
from epsilens.whatif.study import WhatIf

__all__ = ["Calibration", "Choice", "LossChangeEstimate", "WhatIf"]
