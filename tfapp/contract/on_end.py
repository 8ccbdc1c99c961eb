"""What is told at the end of an application, and to whom (site.global.on.end)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tfapp.contract.last_lines import last_word
from tfapp.contract.status import ApplicationStatus
from tfapp.frozen import frozen

JSON, SLACK, TEAMS, COMMAND = "json", "slack", "teams", "command"
CREDENTIAL = "credential:"
_WRITTEN = re.compile(rf"(?:({SLACK}|{TEAMS}|{COMMAND}) +)?(.+)\Z", re.DOTALL)


@frozen
class OnEnd:
    """`form`: one of the above. `target`: a URL, CREDENTIAL and the alias of one, or a command."""

    form: str
    target: str

    @classmethod
    def of(cls, text: str) -> OnEnd | None:
        """What the key says; None for "". The schema has the form."""
        found = _WRITTEN.match(text.strip())
        return cls(found[1] or JSON, found[2]) if found else None

    @property
    def credential(self) -> str:
        """The alias of the credential whose value is the URL; "" where it is none."""
        named = self.form != COMMAND and self.target.startswith(CREDENTIAL)
        return self.target[len(CREDENTIAL) :] if named else ""


def told(status: ApplicationStatus, id: str) -> dict[str, Any]:
    """The verdict as plain JSON data. `id`: that of the run."""
    verdict = status.verdict
    assert verdict is not None, "only a finished application is told of"
    cause = verdict.cause
    return {
        "version": 1,
        "name": status.name,
        "id": id or None,
        "user": (status.ran.user if status.ran else "") or None,
        "state": verdict.state,
        "exit_code": verdict.exit_code,
        "summary": verdict.summary,
        "started": status.started,
        "ended": status.updated,
        "generation": status.generation,
        "restarts": status.restarts,
        "losses": status.losses,
        "cause": cause
        and {
            "instance": cause.instance or None,
            "host": cause.host or None,
            "exit": cause.exit.text or None,
            "last_lines": cause.last_lines or None,
        },
    }


def message(form: str, status: ApplicationStatus, id: str) -> Mapping[str, Any]:
    """What is sent in this form, as plain JSON data. A chat gets two or three lines."""
    if form == JSON:
        return told(status, id)
    verdict = status.verdict
    assert verdict is not None, "only a finished application is told of"
    cause = last_word(verdict.cause.last_lines) if verdict.cause is not None else ""
    title, lines = f"{status.name}: {verdict.state}", [verdict.summary, cause]
    if form == SLACK:
        # https://docs.slack.dev/messaging/formatting-message-text: these three are its markup.
        text = "\n".join(line for line in (title, *lines) if line)
        for character, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
            text = text.replace(character, name)
        return {"text": text}
    # What a workflow of Teams takes: an Adaptive Card. Its text has no markup in a TextRun.
    blocks = [_block(title, weight="bolder"), *(_block(line) for line in lines if line)]
    card = {"type": "AdaptiveCard", "version": "1.4", "body": blocks}
    content = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [content]}


def _block(text: str, **more: str) -> dict[str, Any]:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **more}]}
