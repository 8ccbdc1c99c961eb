"""Converts events of PyYAML into nodes. Tags, merge keys and second documents are refused."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from tfapp.documents.decode import (
    DATA_ELSEWHERE,
    MAX_DEPTH,
    MAX_NODES,
    Unreadable,
    check_scalar,
    invisible_in,
    name_of,
    position_after,
    refuse_conflict,
)
from tfapp.documents.document import Entry, Node, add_entry
from tfapp.documents.scalars import resolve_plain
from tfapp.documents.yaml_errors import NEWLINE, syntax_error, too_deep
from tfapp.frozen import frozen
from tfapp.problems import WARNING, Position, Problem

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's parser where it is built in
UNSUPPORTED = "unsupported-yaml"
_COMMENT = re.compile(r"[ \t]+(#[^\s#!].*?)\s*\Z")
_NO_SPACE = re.compile(r"([A-Za-z_$][\w.$-]*):([^\s/].*)\Z")


def parse_yaml(label: str, text: str, problems: list[Problem]) -> Node:
    """The root node of `text`; null for an empty file. Problems that do not stop the parser are
    appended to `problems`. Raises Unreadable."""
    refuse_conflict(label, text)
    builder = _Builder(label, text, problems)
    try:
        return builder.document(yaml.parse(text, Loader=_Loader))
    except yaml.reader.ReaderError as error:
        raise Unreadable(
            position_after(label, text[: error.position]), "encoding", error.reason
        ) from error
    except yaml.MarkedYAMLError as error:
        raise syntax_error(label, text, error, builder.last) from error


@frozen
class _Anchored:
    """The node of an anchor and its size, which counts towards the limits for each alias."""

    node: Node
    nodes: int
    height: int


class _Builder:
    def __init__(self, label: str, text: str, problems: list[Problem]):
        self.label = label
        self.problems = problems
        self.lines = NEWLINE.split(text)
        self.last: yaml.Event | None = None
        self.anchors: dict[str, _Anchored | None] = {}  # None while it is being read
        self.unused: dict[str, yaml.Event] = {}
        self.nodes = 0

    def document(self, events: Iterator[yaml.Event]) -> Node:
        events = self.events = self.remembered(events)
        root: Node | None = None
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent) and root is not None:
                self.report(
                    event, "a second document begins here, expected one in a file",
                    "remove the '---', or put the rest into a file of its own",
                )  # fmt: skip
                break
            if isinstance(event, yaml.NodeEvent):
                root, _ = self.node(event, 1)
        self.report_unused_anchors()
        return root or Node(Position(self.label, 1, 1), None, "", plain=True)

    def remembered(self, events: Iterator[yaml.Event]) -> Iterator[yaml.Event]:
        for event in events:
            self.last = event
            yield event

    def report_unused_anchors(self) -> None:
        for name, event in self.unused.items():
            message = f"the anchor &{name} is used nowhere, and '&{name}' is no part of the value"
            hint = f"quote text that begins with '&', or remove '&{name}'"
            self.problems.append(Problem(self.at(event), UNSUPPORTED, message, WARNING, hint))

    def node(self, event: yaml.Event, depth: int) -> tuple[Node, int]:
        """The node that begins with `event`, and its height."""
        self.count(event, 1, depth)
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, depth)
        assert isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)), event
        if event.tag and event.tag != "!":
            hint = "remove the tag; quote text that begins with '!'"
            self.report(event, f"the tag {event.tag} has no meaning here", hint)
        if not event.anchor:
            return self.content(event, depth)
        self.anchors[event.anchor] = None
        self.unused[event.anchor] = event
        before = self.nodes
        node, height = self.content(event, depth)
        self.anchors[event.anchor] = _Anchored(node, self.nodes - before, height)
        return node, height

    def content(self, event: yaml.Event, depth: int) -> tuple[Node, int]:
        if isinstance(event, yaml.ScalarEvent):
            return self.scalar(event), 1
        if isinstance(event, yaml.SequenceStartEvent):
            return self.sequence(event, depth)
        return self.mapping(event, depth)

    def alias(self, event: yaml.AliasEvent, depth: int) -> tuple[Node, int]:
        name = event.anchor or ""
        self.unused.pop(name, None)
        anchored = self.anchors.get(name)
        if anchored is None:
            why = (
                "stands inside the value that it names"
                if name in self.anchors
                else "names no anchor above it"
            )
            raise Unreadable(
                self.at(event), UNSUPPORTED, f"the alias *{name} {why}",
                f"an alias repeats an earlier value marked &{name}; "
                "quote the text if it only begins with '*'",
            )  # fmt: skip
        self.count(event, anchored.nodes, depth + anchored.height - 1)
        return anchored.node, anchored.height

    def scalar(self, event: yaml.ScalarEvent) -> Node:
        check_scalar(event.value, self.at(event))
        plain = bool(event.implicit[0])
        value = resolve_plain(event.value) if plain else event.value
        if plain and (value is None or isinstance(value, str)):
            self.report_comment(event)
        return Node(self.at(event), value, event.value, plain)

    def report_comment(self, event: yaml.ScalarEvent) -> None:
        """Warns of a comment that looks like a part of the value: `--tag #7`."""
        end = event.end_mark
        if end is None or end.line >= len(self.lines):
            return
        line = self.lines[end.line]
        comment = _COMMENT.match(line, end.column)
        if comment is None or (event.value == "" and end.column == 0):
            return
        if not event.value and not line[: end.column].rstrip().endswith(":"):
            return
        at = Position(self.label, end.line + 1, comment.start(1) + 1)
        message = f"a comment begins here: '{comment[1][:40]}' is no part of the value"
        hint = "if it belongs to it, put the value into quotes; if not, write a space after '#'"
        self.problems.append(Problem(at, "comment", message, WARNING, hint))

    def sequence(self, event: yaml.Event, depth: int) -> tuple[Node, int]:
        items: list[Node] = []
        height = 0
        for inner in self.until(yaml.SequenceEndEvent):
            item, item_height = self.node(inner, depth + 1)
            items.append(item)
            height = max(height, item_height)
        return Node(self.at(event), tuple(items)), height + 1

    def mapping(self, event: yaml.Event, depth: int) -> tuple[Node, int]:
        entries: dict[str, Entry] = {}
        height = 0
        for key_event in self.until(yaml.MappingEndEvent):
            key, _ = self.node(key_event, depth + 1)
            value, value_height = self.node(next(self.events), depth + 1)
            height = max(height, value_height)
            if value.value is None and (pair := self.without_space(key, key_event)):
                key, value = pair
            if self.usable_key(key, key_event):
                add_entry(entries, key.text, self.at(key_event), value, self.problems)
        return Node(self.at(event), entries), height + 1

    def without_space(self, key: Node, event: yaml.Event) -> tuple[Node, Node] | None:
        """Refuses `{key:value}`, which is a single long key in YAML."""
        match = _NO_SPACE.match(key.text) if key.plain else None
        if match is None:
            return None
        hint = f"write '{match[1]}: {match[2]}'"
        self.report(event, f"a space is missing after '{match[1]}:'", hint)
        at = key.at._replace(column=key.at.column + match.start(2))
        meant = Node(at, resolve_plain(match[2]), match[2], plain=True)
        return Node(key.at, match[1], match[1], plain=True), meant

    def usable_key(self, key: Node, event: yaml.Event) -> bool:
        at = invisible_in(key.text)
        if at >= 0:  # nothing below it stands where its author thinks
            raise Unreadable(
                self.at(event), UNSUPPORTED, f"the key has {name_of(key.text[at])} in it",
                "type the line anew; pasted text often holds such a character",
            )  # fmt: skip
        if isinstance(key.value, (dict, tuple)) or key.value is None:
            found = "nothing" if key.value is None else "a list or a mapping"
            self.report(event, f"expected text as a key, found {found}")
            return False
        if key.plain and key.text == "<<":
            self.report(
                event, "the merge key '<<' is not part of YAML 1.2",
                "write the keys out; what all components share belongs into 'global'",
            )  # fmt: skip
            return False
        return True

    def until(self, end: type[yaml.Event]) -> Iterator[yaml.Event]:
        for event in self.events:
            if isinstance(event, end):
                return
            yield event

    def count(self, event: yaml.Event, nodes: int, depth: int) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            raise Unreadable(
                self.at(event), "too-large",
                f"the document has more than {MAX_NODES} keys and values, its aliases followed",
                DATA_ELSEWHERE,
            )  # fmt: skip
        if depth > MAX_DEPTH:
            raise too_deep(self.at(event))

    def report(self, event: yaml.Event, message: str, hint: str = "") -> None:
        self.problems.append(Problem(self.at(event), UNSUPPORTED, message, hint=hint))

    def at(self, event: yaml.Event) -> Position:
        mark = event.start_mark
        assert mark is not None, event
        return Position(self.label, mark.line + 1, mark.column + 1)
