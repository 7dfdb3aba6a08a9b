# SPDX-License-Identifier: Apache-2.0
"""How easy a stored output of a command is to read: words, sentences, and Flesch reading ease."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyphen

_SYLLABLES = pyphen.Pyphen(lang="en_GB", left=1, right=1)
_COMMANDS = ("Next: ", "Written: ", "Report: ", "The table, to try other commands on: ")
_OUTPUT = "--- standard output\n"


@dataclass(frozen=True)
class Reading:
    """The sentences of a text, each as its words.

    Attributes
    ----------
    sentences : tuple of tuple of str
    """

    sentences: tuple[tuple[str, ...], ...]

    @property
    def longest(self) -> tuple[str, ...]:
        """The sentence with the most words."""
        return max(self.sentences, key=len)

    @property
    def n_words(self) -> int:
        """How many words there are."""
        return sum(map(len, self.sentences))

    @property
    def ease(self) -> float:
        """Flesch reading ease: 206.835 − 1.015 words a sentence − 84.6 syllables a word."""
        syllables = sum(syllable_count(word) for words in self.sentences for word in words)
        return (
            206.835
            - 1.015 * self.n_words / len(self.sentences)
            - 84.6 * syllables / max(self.n_words, 1)
        )


def syllable_count(word: str) -> int:
    """Return the places where pyphen parts a word, and one; each part of a compound has its own.

    Examples
    --------
    >>> [syllable_count(word) for word in ("ease", "answer")]
    [1, 2]
    """
    return sum(len(_SYLLABLES.positions(part)) + 1 for part in word.lower().split("-"))


def read(text: str) -> Reading:
    """Count the sentences of a text.

    A word is letters, with the hyphens and apostrophes within it. Left out are numbers and what contains
    one, single Greek letters and signs, quoted names of columns, options, and code in backticks. A sentence
    ends at a full stop, a question mark or an exclamation mark before a space and a capital letter, a number
    or a quotation mark, and at the end of the text. A colon or a semicolon ends none.
    """
    plain = re.sub(r"“[^”]*”|`[^`]*`|--[a-z-]+", " ", text)
    found = []
    for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z“\d])", plain):
        tokens = (token.strip("()[],.;:!?%'\"") for token in sentence.split())
        words = tuple(
            token for token in tokens if re.fullmatch(r"[A-Za-z]+(?:['’-][A-Za-z]+)*", token)
        )
        if words:
            found.append(words)
    return Reading(tuple(found))


def prose(stored: str) -> str:
    """Return what a command printed in sentences, as one text.

    Left out are the files that it wrote, lines that begin with a space (the picture and the rows of
    tables), commands and paths, and the headings of tables: blocks of one line without an end. Notes below
    tables are sentences and stay. Lines of a block are joined, because the terminal has parted them.
    """
    _, _, printed = stored.partition(_OUTPUT)
    printed = re.split(r"^--- ", printed, flags=re.MULTILINE)[0]
    blocks: list[list[str]] = [[]]
    for line in printed.splitlines():
        if not line.strip() or line.startswith(" "):
            blocks.append([])
        elif not line.startswith(_COMMANDS):
            blocks[-1].append(line)
    texts = (" ".join(block) for block in blocks if block)
    # What a list follows is a sentence as well.
    return " ".join(
        f"{text[:-1]}." if text.endswith(":") else text
        for text in texts
        if text.endswith((".", "!", "?", ":"))
    )


def recommendation(stored: str) -> str:
    """Return the recommendation of an output: the sentences of its first block."""
    _, _, printed = stored.partition(_OUTPUT)
    return " ".join(printed.split("\n\n")[0].splitlines())
