#!/usr/bin/env python3
"""Writes programs.txt anew, as README.md describes: `refresh.py <version> crawler-user-agents.json`."""

import itertools
import json
import pathlib
import sys
from re import _constants as kinds, _parser as parser

# Longer sets and repetitions are left out, together with what is on one side of them.
MOST = 8


def texts(tree):
    """Returns the texts that a pattern matches, or the longest parts of them that it always matches."""
    runs = [[""]]
    for kind, value in tree:
        part = alternatives(kind, value)
        if part is None:
            runs.append([""])
        else:
            runs[-1] = [begin + end for begin, end in itertools.product(runs[-1], part)]
    return max(runs, key=lambda run: min(map(len, run)))


def alternatives(kind, value):
    """Returns the texts of one part of a pattern; None if there are too many. The ends of a text match anything."""
    if kind is kinds.LITERAL:
        return [chr(value)]
    if kind is kinds.AT:
        return [""]
    if kind is kinds.IN and len(value) <= MOST and all(kind is kinds.LITERAL for kind, _ in value):
        return [chr(letter) for _, letter in value]
    if kind is kinds.BRANCH:
        return [text for branch in value[1] for text in texts(branch)]
    if kind is kinds.SUBPATTERN:
        return texts(value[-1])
    if kind is kinds.MAX_REPEAT and value[:2] == (0, 1):
        return ["", *texts(value[2])]
    return None


def main():
    version, source = sys.argv[1:]
    crawlers = json.loads(pathlib.Path(source).read_text())
    found = {text for crawler in crawlers for text in texts(parser.parse(crawler["pattern"]))}
    assert all(len(text) >= 3 and text.isascii() and text.isprintable() for text in found), found
    # A text within another one adds nothing.
    shortest = sorted(text for text in found if not any(other in text and other != text for other in found))
    for crawler in crawlers:
        for agent in crawler["instances"]:
            assert any(text in agent for text in shortest), agent
    page = f"# crawler-user-agents {version}\n" + "".join(f"{text}\n" for text in shortest)
    pathlib.Path(__file__).with_name("programs.txt").write_text(page)


main()
