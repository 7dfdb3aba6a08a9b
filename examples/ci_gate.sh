#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two gates for a pipeline. Exit code 0: kept; 3: not kept; 2: the question was wrong, and one line says how.
#
#     sh examples/ci_gate.sh
#
# It runs on the bundled survey and a mechanism of epsilens itself; put your own in their place.
set -eu

# Does the mechanism still keep its claim? --confidence 0.999: an honest one fails once in 1,000 runs.
epsilens audit one-run --mechanism gaussian-sum --epsilon 1 --delta 1e-6 --confidence 0.999 --quiet

# Can the survey be protected at a cost that can be borne? Where the data are, never on a public runner.
python -c 'from epsilens.data import load_survey; load_survey().to_csv("survey.csv", index=False)'
if epsilens whatif survey.csv --label affair --protect affair --categories 'affair=no|yes' \
    --epsilon 0.1,0.2 --max-loss-increase 0.01 --quiet --out cost.json
then
  echo "kept"
else
  code=$?
  echo "exit code $code: the pipeline stops here (cost.json says by how much)"
  exit "$code"
fi
