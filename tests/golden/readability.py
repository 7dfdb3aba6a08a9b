# SPDX-License-Identifier: Apache-2.0
"""How easy a stored output of a command or a page is to read: words, sentences, and Flesch reading ease."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

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


@dataclass
class Page(HTMLParser):
    """The text of a page: what can be seen or heard, and what its program shows for other budgets.

    Each block is a text of its own: headings, labels, cells, items and options end a sentence. In a list
    of choices the chosen one stands in its sentence.

    Attributes
    ----------
    blocks : list of str
        Text of the page itself, without programs, charts, commands and texts to copy.
    annexes : list of str
        Lines of the texts to copy.
    data : list of str
        Sentences that the program of the page shows.
    """

    blocks: list[str] = field(default_factory=lambda: [""])
    annexes: list[str] = field(default_factory=list)
    data: list[str] = field(default_factory=list)
    _open: list[tuple[str, str]] = field(default_factory=list)

    WITHIN = frozenset(
        [
            "a",
            "abbr",
            "b",
            "bdi",
            "code",
            "em",
            "i",
            "output",
            "small",
            "span",
            "strong",
            "sub",
            "sup",
            "select",
        ]
    )
    EMPTY = frozenset(
        ["br", "hr", "img", "input", "link", "meta", "path", "line", "rect", "circle"]
    )
    LEFT_OUT = frozenset({"script", "style", "svg"})
    SHOWN = frozenset(
        ["sentence", "rate_sentence", "long_sentence", "holder", "paragraph", "text", "note"]
    )

    @classmethod
    def of(cls, page: str) -> Page:
        """Read a page."""
        found = cls()
        HTMLParser.__init__(found)
        found.feed(page)
        return found

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        kind = "other"
        if tag in self.LEFT_OUT:
            kind = "page-data" if given.get("id") == "page-data" else "left out"
        elif tag == "pre":
            kind = "annex" if (given.get("id") or "").startswith("annex-") else "left out"
        elif tag == "option":
            kind = "choice" if "selected" in given else "block"
        elif given.get("class") == "unseen" or given.get("id") == "own-limits":
            # Spoken alone, or shown instead of what stands beside it.
            kind = "aside"
        elif tag not in self.WITHIN | self.EMPTY:
            kind = "block"
        spoken = [given.get(name) for name in ("aria-label", "title", "alt", "placeholder")]
        if kind != "left out" and not self._is_in("left out"):
            self.blocks[-1:-1] = [text for text in spoken if text]
        if tag not in self.EMPTY:
            self._open.append((tag, kind))
        if kind == "block" and not self._is_in("select"):
            self.blocks.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.EMPTY:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open:
            name, kind = self._open.pop()
            if kind == "block" and not self._is_in("select"):
                self.blocks.append("")
            if name == tag:
                return

    def handle_data(self, data: str) -> None:
        kinds = [kind for _, kind in self._open]
        if "page-data" in kinds:
            self.data += sorted(set(_shown(json.loads(data), self.SHOWN)))
        elif "annex" in kinds:
            self.annexes += data.splitlines()
        elif "left out" in kinds:
            return
        elif "aside" in kinds or (kinds and kinds[-1] == "block" and self._is_in("select")):
            self.blocks.insert(-1, data)
        else:
            self.blocks[-1] += data

    def _is_in(self, name: str) -> bool:
        return any(name in pair for pair in self._open)


def _shown(value: object, names: frozenset[str]) -> Iterator[str]:
    """Give the sentences in the data of a page."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for name, item in items:
        if isinstance(item, dict | list):
            yield from _shown(item, names)
        elif name in names and isinstance(item, str):
            yield item


def read_blocks(blocks: list[str]) -> tuple[Reading, Reading]:
    """Count the sentences of blocks: of all, and of those that are written in sentences.

    Headings and labels are short and would make a text seem easier than it is.
    """
    found = [" ".join(block.split()) for block in blocks]
    every = [sentence for block in found for sentence in read(block).sentences]
    prose = [
        sentence
        for block in found
        if re.search(r"[.!?:][)”]?$", block)
        for sentence in read(block).sentences
    ]
    return Reading(tuple(every)), Reading(tuple(prose))
