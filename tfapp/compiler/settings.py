"""appConfig -> the values of a component's job. Placeholders that are known before the submission
are replaced; those that only a container can replace stay."""

from __future__ import annotations

from collections.abc import Mapping

from tfapp import placeholders
from tfapp.contract.job import Settings
from tfapp.package.model import ConfigValue

SITE = "site."
ENVIRONMENT = "env."


class ComponentSettings:
    """One component's `site.*` and `env.*` values. Placeholders that are known now are replaced,
    and so are references to values without other placeholders. A reference to a value that still
    has a placeholder stays a reference: if the placeholder of a port were copied, it would become a
    second port."""

    def __init__(
        self, values: Mapping[str, ConfigValue], component: str, user: str, application: str
    ):
        self._known = placeholders.compile_values(user, application, component)
        texts = {key: self._compiled(value.text) for key, value in values.items()}
        site = {key: text for key, text in texts.items() if key.startswith(SITE)}
        self._settled = {
            key: text
            for key, text in placeholders.resolve(site).items()
            if not placeholders.find(text)
        }
        self.site = {key: self.expand(text) for key, text in site.items()}
        self.environment = {
            key[len(ENVIRONMENT) :]: self.expand(text)
            for key, text in texts.items()
            if key.startswith(ENVIRONMENT)
        }

    @property
    def settings(self) -> Settings:
        """`site.global.*` of the component."""
        return Settings(self.site)

    @property
    def run_mode(self) -> str:
        """LOCAL, DOCKER, or one that an engine has of its own."""
        return self.settings.text("run.mode")

    def expand(self, text: str) -> str:
        """`text` as this component sees it, as far as that is known before submission."""
        return placeholders.substitute(self._compiled(text), self._settled_reference)

    def _compiled(self, text: str) -> str:
        return placeholders.substitute(text, self._known)

    def _settled_reference(self, placeholder: placeholders.Placeholder) -> str | None:
        if placeholder.kind != placeholders.REFERENCE:
            return None
        return self._settled.get(placeholder.name)
