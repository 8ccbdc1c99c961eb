"""YAML text to nodes, from PyYAML's events: no tag, no merge key, no second document."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import yaml

from tfapp.documents.decode import DATA_ELSEWHERE, Unreadable, check_scalar, position_after
from tfapp.documents.document import Entry, Node
from tfapp.documents.entries import add_entry
from tfapp.documents.limits import MAX_DEPTH, MAX_NODES
from tfapp.documents.scalars import resolve_plain
from tfapp.documents.yaml_errors import syntax_error
from tfapp.problems import Position, Problem

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's parser where it is built in
UNSUPPORTED = "unsupported-yaml"


def parse_yaml(label: str, text: str, problems: list[Problem]) -> Node:
    """The root node of `text`; an empty file is a null. Findings that leave the rest readable
    are appended to `problems`. Raises Unreadable."""
    try:
        return _Builder(label, problems).document(yaml.parse(text, Loader=_Loader))
    except yaml.reader.ReaderError as error:
        raise Unreadable(
            position_after(label, text[: error.position]), "encoding", error.reason
        ) from error
    except yaml.MarkedYAMLError as error:
        raise syntax_error(label, text, error) from error


@dataclasses.dataclass(frozen=True)
class _Anchored:
    """What an alias stands for, and how much of the limits it takes each time."""

    node: Node
    nodes: int
    height: int


class _Builder:
    def __init__(self, label: str, problems: list[Problem]):
        self.label = label
        self.problems = problems
        self.anchors: dict[str, _Anchored | None] = {}  # None while it is being read
        self.nodes = 0

    def document(self, events: Iterator[yaml.Event]) -> Node:
        self.events = events
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
        return root or Node(Position(self.label, 1, 1), None, "", plain=True)

    def node(self, event: yaml.Event, depth: int) -> tuple[Node, int]:
        """The node that `event` begins, and its height."""
        self.count(event, 1, depth)
        if isinstance(event, yaml.AliasEvent):
            return self.alias(event, depth)
        assert isinstance(event, (yaml.ScalarEvent, yaml.CollectionStartEvent)), event
        if event.tag and event.tag != "!":
            self.report(event, f"the tag {event.tag} has no meaning here", "remove the tag")
        if not event.anchor:
            return self.content(event, depth)
        self.anchors[event.anchor] = None
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
        return Node(self.at(event), value, event.value, plain)

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
            if self.usable_key(key, key_event):
                add_entry(entries, key.text, self.at(key_event), value, self.problems)
        return Node(self.at(event), entries), height + 1

    def usable_key(self, key: Node, event: yaml.Event) -> bool:
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
            raise Unreadable(
                self.at(event), "too-large", f"values are nested more than {MAX_DEPTH} deep"
            )

    def report(self, event: yaml.Event, message: str, hint: str = "") -> None:
        self.problems.append(Problem(self.at(event), UNSUPPORTED, message, hint=hint))

    def at(self, event: yaml.Event) -> Position:
        mark = event.start_mark
        assert mark is not None, event
        return Position(self.label, mark.line + 1, mark.column + 1)
