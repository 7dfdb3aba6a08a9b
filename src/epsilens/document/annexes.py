# SPDX-License-Identifier: Apache-2.0
"""Annexes to a decision, as texts to copy and as JSON: an assessment, a checklist and a registry entry.

They repeat the numbers of the decision in its own words, each with its kind. What the document does not say
is a blank in brackets, "not covered by this tool", or null. They claim no compliance with any law or guide.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from epsilens.document.annex_facts import Facts
from epsilens.document.decision import (
    DecisionDocument,
    answer_title,
)
from epsilens.document.parts import JsonValue
from epsilens.document.sentences import (
    NOT_PRIVATE,
    REMAINS,
    assessment_description,
    origin_sentence,
    proof_sentences,
    remains_text,
)
from epsilens.document.view import Row
from epsilens.document.wording import (
    ATTACKERS,
    GAP_MEANINGS,
    GAPS,
    answers_text,
    sentence_case,
)

NOT_COVERED = "Not covered by this tool."
NOTHING_RECOMMENDED = "Nothing is recommended."
_NOT_ACCOUNTED = (
    "A choice of ε by numbers computed from the true answers is not accounted for in ε."
)


@dataclass(frozen=True)
class AnnexItem:
    """One point of an annex: what the decision says of it, and what is left to complete.

    Attributes
    ----------
    title : str
    sentences : tuple of str
    rows : tuple of Row
        Numbers with their kinds.
    blanks : tuple of str
        What somebody else must fill in.
    is_covered : bool
        Whether the decision says anything of it.

    Examples
    --------
    >>> AnnexItem("Security", is_covered=False).lines()
    ['Not covered by this tool.']
    """

    title: str
    sentences: tuple[str, ...] = ()
    rows: tuple[Row, ...] = ()
    blanks: tuple[str, ...] = ()
    is_covered: bool = True

    def lines(self) -> list[str]:
        """Return the paragraphs and the list of the point, without its title."""
        said = list(self.sentences) if self.is_covered else [NOT_COVERED, *self.sentences]
        return [
            *said,
            *(f"- {row.title}: {row.text} ({row.kind})" for row in self.rows),
            *(f"- [{blank}, to be completed]" for blank in self.blanks),
        ]

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the point as Python objects of JSON."""
        return {
            "title": self.title,
            "covered": self.is_covered,
            "sentences": list(self.sentences),
            "numbers": [
                {
                    "name": row.key,
                    "title": row.title,
                    "text": row.text,
                    "number": _json_number(row.number),
                    "kind": row.kind,
                    "unit": row.unit,
                }
                for row in self.rows
            ],
            "to_complete": list(self.blanks),
        }


@dataclass(frozen=True)
class Annex:
    r"""A text of several points, to be copied and completed.

    Examples
    --------
    >>> Annex("assessment", "An assessment", "It is a draft.", (AnnexItem("Risks", ("None.",)),)).text
    'An assessment\n\nIt is a draft.\n\nRisks\nNone.\n'
    """

    name: str
    title: str
    opening: str
    items: tuple[AnnexItem, ...]

    @property
    def text(self) -> str:
        """The annex as plain text."""
        parts = [self.title, self.opening]
        parts += ["\n".join([item.title, *item.lines()]) for item in self.items]
        return "\n\n".join(parts) + "\n"

    @property
    def markdown(self) -> str:
        """The annex in Markdown."""
        parts = [f"## {self.title}", self.opening]
        for item in self.items:
            parts.append(f"### {item.title}")
            lines = item.lines()
            parts += [line for line in lines if not line.startswith("- ")]
            listed = [line for line in lines if line.startswith("- ")]
            # A blank in brackets must not become a link.
            parts += ["\n".join(line.replace("[", r"\[") for line in listed)] if listed else []
        return "\n\n".join(parts) + "\n"

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the annex as Python objects of JSON."""
        items: list[JsonValue] = [item.to_dict() for item in self.items]
        return {"title": self.title, "opening": self.opening, "items": items}


@dataclass(frozen=True)
class RegistryEntry:
    r"""An entry for the registry of deployments, with its field names; what is not known is None.

    Examples
    --------
    >>> RegistryEntry("An entry", "A draft.", {"tier": None}).text
    '# An entry\n# A draft.\ntier: null\n'
    """

    title: str
    opening: str
    fields: Mapping[str, JsonValue]
    name: str = "registry"

    @property
    def yaml(self) -> str:
        """The fields alone, in the format of the registry."""
        return "\n".join(_yaml_lines(self.fields)) + "\n"

    @property
    def text(self) -> str:
        """The entry as YAML, what it is as a comment."""
        return f"# {self.title}\n# {self.opening}\n{self.yaml}"

    @property
    def markdown(self) -> str:
        """The entry in Markdown."""
        return f"## {self.title}\n\n{self.opening}\n\n```yaml\n{self.yaml}```\n"

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the fields as Python objects of JSON."""
        return dict(self.fields)


@dataclass(frozen=True)
class Annexes:
    """The three annexes of a decision.

    Attributes
    ----------
    assessment : Annex
        Section for a data-protection impact assessment.
    checklist : Annex
        Points for evaluating a guarantee of differential privacy.
    registry : RegistryEntry
        Entry for the registry of deployments.
    is_recommended : bool
        Whether anything is recommended.

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> found = annexes(example_document("decision"))
    >>> [annex.name for annex in found], found.is_recommended
    (['assessment', 'checklist', 'registry'], True)
    """

    assessment: Annex
    checklist: Annex
    registry: RegistryEntry
    is_recommended: bool

    def __iter__(self) -> Iterator[Annex | RegistryEntry]:
        return iter((self.assessment, self.checklist, self.registry))

    @property
    def text(self) -> str:
        """All annexes as plain text."""
        return "\n\n".join(annex.text for annex in self)

    @property
    def markdown(self) -> str:
        """All annexes in Markdown."""
        return "\n".join(["# Annexes to a decision\n", *(annex.markdown for annex in self)])

    def to_dict(self) -> dict[str, JsonValue]:
        """Return all annexes as Python objects of JSON.

        Returns
        -------
        dict
            Text, numbers, true, false, null, lists and dicts only; infinity is the text "inf".
        """
        return {
            "kind": "annexes",
            "recommended": self.is_recommended,
            **{annex.name: annex.to_dict() for annex in self},
        }

    def to_json(self) -> str:
        """Return all annexes as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)


def annexes(document: DecisionDocument, *, data: str | None = None) -> Annexes:
    """Write the annexes to a decision.

    Parameters
    ----------
    document : DecisionDocument
        The decision. The annexes are about its recommendation.
    data : str, optional
        What the data are called.

    Returns
    -------
    Annexes

    Examples
    --------
    >>> from epsilens.document import example_document
    >>> found = annexes(example_document("decision"))
    >>> found.registry.fields["deployment"]["dp_variant"]["variant_name"]
    'Pure DP'
    >>> print(found.checklist.text.splitlines()[0])
    Checklist after NIST SP 800-226
    """
    facts = Facts(document.answered(), data)
    return Annexes(
        assessment=_assessment(facts),
        checklist=_checklist(facts),
        registry=_registry(facts),
        is_recommended=facts.is_recommended,
    )


def _json_number(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return "inf" if value > 0 else "-inf"


def _yaml_lines(fields: Mapping[str, JsonValue], indent: str = "") -> Iterator[str]:
    """Write nested fields; JSON texts and numbers are YAML too."""
    for name, value in fields.items():
        if isinstance(value, dict):
            yield f"{indent}{name}:"
            yield from _yaml_lines(value, f"{indent}  ")
        else:
            text = json.dumps(value, ensure_ascii=False, allow_nan=False)
            if isinstance(value, float) and "." not in text:
                text = text.replace("e", ".0e")  # without a point YAML 1.1 reads a text
            yield f"{indent}{name}: {text}"


# --- (a) A section for a data-protection impact assessment ---


def _assessment(facts: Facts) -> Annex:
    """Fill in what is known under the headings of Article 35(7)."""
    opening = (
        "The headings follow Article 35(7) of the General Data Protection Regulation. The text states what "
        "epsilens computed, and no more. It is no legal assessment."
    )
    items = (_processing(facts), _necessity(facts), _risks(facts), _measures(facts))
    title = "Section for a data-protection impact assessment"
    return Annex("assessment", title, opening, items)


def _processing(facts: Facts) -> AnnexItem:
    document = facts.document
    n_train = f"{document.cost.baseline.n_train:,}"
    of = f" of {facts.data}" if facts.data else ""
    said: tuple[str, ...] = (f"The decision was computed on {n_train} training records{of}.",)
    if not facts.is_recommended:
        said += (NOTHING_RECOMMENDED,)
    elif facts.point is not None:
        said = (assessment_description(document, facts.point.cost, data=facts.data),)
    elif facts.chosen.mechanism == "synthetic-aim":
        said += ("It recommends publishing a synthetic table by AIM instead of the records.",)
    elif facts.is_local:
        said += (
            f"It recommends randomising {answers_text(document.risk.protect)}, and training with "
            "forward correction.",
        )
    else:
        said += (f"It recommends publishing a model that is trained with {facts.title}.",)
    blanks = (
        "purpose of the processing",
        "legitimate interest of the controller, where there is one",
        "categories of people and of data",
        "recipients and storage period",
    )
    return AnnexItem("1. Description of the processing", said, blanks=blanks)


def _necessity(facts: Facts) -> AnnexItem:
    blanks = ("legal basis", "why the purpose needs these data")
    title = "2. Necessity and proportionality"
    if not facts.is_recommended:
        said: tuple[str, ...] = (NOTHING_RECOMMENDED, *facts.reasons, facts.kinds)
        return AnnexItem(title, said, blanks=blanks)
    others = [
        f"Not recommended: {answer_title(one)}. {one.reason}" for one in facts.document.alternatives
    ]
    said = ("Reason for this budget:", *facts.reasons, *others, facts.kinds)
    said += ("The list states what the protection costs the model.",)
    return AnnexItem(title, said, facts.costs(), blanks)


def _risks(facts: Facts) -> AnnexItem:
    blanks = (
        "likelihood and severity for the people concerned",
        "other risks, such as loss of the data or access to them",
    )
    title = "3. Risks to the people concerned"
    if not facts.is_recommended:
        return AnnexItem(title, (NOTHING_RECOMMENDED, _attacked(facts)), blanks=blanks)
    proof = [] if facts.risk is None else proof_sentences(facts.document.risk, facts.risk)
    tried = [ATTACKERS] if facts.attacks() else []
    if facts.point is None:
        tried.append(_attacked(facts))
    said = (*proof, *tried, _remains(facts), NOT_PRIVATE)
    return AnnexItem(title, said, (*facts.guarantee(), *facts.attacks()), blanks)


def _attacked(facts: Facts) -> str:
    """Say what was attacked where that is not the recommended mechanism."""
    if not facts.is_recommended:
        return "The document has what attackers get at each budget that was compared."
    return "No attack was tried on a model of this mechanism with these data."


def _remains(facts: Facts) -> str:
    """Say what the guarantee does not prevent."""
    said = REMAINS
    if not facts.is_local:
        said = (
            "no budget hides what can be guessed without the answer",
            "further releases of the same answers add to the budget",
            "earlier versions stay known to whoever saw them",
        )
        if not facts.covers_record:
            said += ("membership in the data is not what is protected",)
    return remains_text(said)


def _measures(facts: Facts) -> AnnexItem:
    title = "4. Measures"
    blanks: tuple[str, ...] = ("security of the true answers and access to them",)
    if facts.chosen.trust == "nobody" and facts.is_recommended:
        blanks += ("whether answers are randomised before they are collected",)
    blanks += (
        "who adds up further releases of the same answers",
        "advice of the data protection officer",
        "views of the people concerned or their representatives",
    )
    origin = origin_sentence(facts.document)
    if not facts.is_recommended:
        return AnnexItem(title, (NOTHING_RECOMMENDED, origin), blanks=blanks)
    said: tuple[str, ...] = (
        f"{sentence_case(facts.title)}. Unit of privacy: {_lowered(facts.unit)}",
    )
    said += (facts.neighbours, facts.trust)
    said += () if facts.audit is None else (facts.audit,)
    if facts.chosen.command is not None:
        said += (f"The command that makes the protected release: {facts.chosen.command}",)
    return AnnexItem(title, (*said, origin), blanks=blanks)


def _lowered(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}"


# --- (b) A checklist after NIST SP 800-226 ---


def _checklist(facts: Facts) -> Annex:
    """Go through the pyramid of NIST SP 800-226 from its top."""
    opening = (
        "The points follow the pyramid of the Guidelines for Evaluating Differential Privacy Guarantees, from the "
        "top. Each states what this decision says of it. This is no evaluation by NIST. Nothing here claims that "
        "the guidelines are met."
    )
    items = (*_top(facts), *_middle(facts), *_base(facts))
    title = "Checklist after NIST SP 800-226"
    return Annex("checklist", title, opening, items)


def _top(facts: Facts) -> tuple[AnnexItem, ...]:
    if not facts.is_recommended:
        nothing = (NOTHING_RECOMMENDED, *facts.reasons, facts.kinds)
        unit = (NOTHING_RECOMMENDED, "So there is no guarantee to name a unit for.")
        return (
            AnnexItem("Privacy guarantee: ε", nothing),
            AnnexItem("Privacy guarantee: unit of privacy", unit),
        )
    infinite = math.isinf(facts.chosen.epsilon or 0.0)
    said = () if not infinite else ("Nothing is randomised, and nothing is proven to stay hidden.",)
    variant = f"Variant: {_lowered(_variant(facts) or '') or 'none'}."
    return (
        AnnexItem("Privacy guarantee: ε", (*said, variant), facts.guarantee()),
        AnnexItem(
            "Privacy guarantee: unit of privacy",
            (facts.unit, facts.neighbours),
            blanks=("whether one person has one record",),
        ),
    )


def _middle(facts: Facts) -> tuple[AnnexItem, ...]:
    if not facts.is_recommended:
        names = ("Utility", "Algorithms and correctness", "Bias")
        return tuple(AnnexItem(name, (NOTHING_RECOMMENDED,)) for name in names)
    utility = ("The change is that of the test rows, against the model without protection.",)
    algorithm = [f"{sentence_case(facts.title)}, by epsilens {facts.document.provenance.version}."]
    algorithm += [] if facts.audit is None else [facts.audit]
    if not facts.audit:
        algorithm.append("This decision holds no audit of the mechanism.")
    noise = [note for note in facts.document.notes if note.code == "floating-point-noise"]
    algorithm += ["The noise of a library is not discrete."] if noise else []
    gaps = facts.gaps()
    meanings = tuple(
        GAP_MEANINGS[gap] for gap in GAPS if any(row.key == f"{gap}_change" for row in gaps)
    )
    meanings = meanings or ("No gap between groups was computed for this release.",)
    bias = AnnexItem("Bias", meanings, gaps, ("bias of the data and of their use",))
    return (
        AnnexItem("Utility", utility, facts.costs())
        if facts.costs()
        else AnnexItem("Utility", ("What it costs is not known.",)),
        AnnexItem("Algorithms and correctness", tuple(algorithm)),
        bias,
    )


def _base(facts: Facts) -> tuple[AnnexItem, ...]:
    trust: tuple[str, ...] = (NOTHING_RECOMMENDED,)
    exposure: tuple[str, ...] = ("This decision was computed from the true answers.",)
    blanks: tuple[str, ...] = ()
    attacks: tuple[Row, ...] = ()
    if facts.is_recommended:
        attacks = facts.attacks()
        trust = (facts.trust, *([ATTACKERS] if attacks else [_attacked(facts)]))
        if facts.chosen.trust == "nobody":
            blanks = ("whether answers are randomised before they are collected",)
        else:
            exposure += ("The mechanism needs the true answers, so they are collected.",)
    budget = ("ε holds for one release. Further releases of the same answers add to the budget.",)
    return (
        AnnexItem("Trust model and attackers", trust, attacks),
        AnnexItem("Several releases and the choice of ε", (*budget, _NOT_ACCOUNTED)),
        AnnexItem(
            "Security", blanks=("security of the data and of the software",), is_covered=False
        ),
        AnnexItem("Access control", blanks=("who may see the true answers",), is_covered=False),
        AnnexItem(
            "Side channels",
            blanks=("what can be seen of a release while it is made",),
            is_covered=False,
        ),
        AnnexItem(
            "Data collection exposure", exposure, blanks=(*blanks, "which data are collected")
        ),
    )


# --- (c) An entry for the registry of deployments ---


def _variant(facts: Facts) -> str | None:
    """Name the kind of differential privacy, in the registry's words."""
    if not facts.is_recommended or math.isinf(facts.chosen.epsilon or 0.0):
        return None
    return "Approximate DP" if facts.chosen.delta else "Pure DP"


def _registry(facts: Facts) -> RegistryEntry:
    """Fill in what is known of the fields of the registry's schema."""
    opening = (
        "The fields are those of the Differential Privacy Deployments Registry. What epsilens does not know "
        "is null: complete it, or leave it out. The numbers of a guarantee are proven."
    )
    if not facts.is_recommended:
        opening = f"{NOTHING_RECOMMENDED} So there is no deployment to register. {opening}"
    known = facts.is_recommended

    def told(text: str) -> str | None:
        return text if known else None

    epsilon = facts.record_epsilon if known and _variant(facts) else None
    delta = facts.chosen.delta if epsilon is not None and facts.chosen.delta else None
    product = {"synthetic-aim": "Synthetic data"}.get(
        facts.chosen.mechanism, None if facts.is_local else "Machine learning model"
    )
    answers = answers_text(facts.document.risk.protect)
    unprotected = f"All columns but {answers}, and who is in the data."
    proven = "; ".join(
        f"{row.title}: {row.text} ({row.kind})"
        for row in facts.guarantee()
        if row.key in {"epsilon", "record_epsilon", "delta"}
    )
    library = "" if facts.curve is None or facts.curve.audit is None else facts.curve.audit.library
    by = f"epsilens {facts.document.provenance.version}"
    by += f" ({library})" if library and not library.startswith("epsilens") else ""
    composition = "ε holds for one release. Further releases of the same answers add to it."
    if facts.is_local and facts.many:
        composition = f"The ε of a record is the sum over its columns. {composition}"
    fields: dict[str, JsonValue] = {
        "url_slug": None,
        "status": "Draft",
        "tier": None,
        "deployment": {
            "basic": {
                "name": None,
                "data_curators": None,
                "intended_use": None,
                "data_product_type": product if known else None,
                "data_product_region": None,
                "description": None,
                "publication_date": None,
                "data_product_sector": None,
            },
            "dp_variant": {
                "variant_name": _variant(facts),
                "data_domain": None,
                "unprotected_quantities": None if facts.covers_record else told(unprotected),
            },
            "privacy_loss": {
                "privacy_unit": told(facts.unit.removesuffix(".")),
                "privacy_unit_details": told(facts.neighbours),
                "privacy_parameters": {"epsilon": epsilon, "delta": delta, "rho": None},
                "privacy_parameters_details": told(proven),
            },
            "deployment_model": {
                "model_name": told("Local" if facts.chosen.trust == "nobody" else "Central"),
                "model_name_details": told(facts.trust),
                "actors": None,
                "release_type": None,
                "release_type_details": None,
                "data_source_type": None,
                "access_type": told("Non-interactive"),
            },
            "accounting": {"post_processing": None, "composition": told(composition)},
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": told(_NOT_ACCOUNTED),
                "mechanisms": told(f"{sentence_case(facts.title)}, by {by}."),
                "justification": told(" ".join([*facts.reasons, facts.kinds])),
            },
            "administrative": {"sources": None, "notes": None, "registry_authors": None},
        },
    }
    title = "Entry for the Differential Privacy Deployments Registry"
    return RegistryEntry(title, opening, fields)
