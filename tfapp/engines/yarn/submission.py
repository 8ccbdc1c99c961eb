"""Submits an application to YARN, with the files that other machines need to start it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from tfapp.engines.credentials import new_credentials
from tfapp.engines.definition import Definition
from tfapp.engines.yarn.bundle import Bundle
from tfapp.engines.yarn.cluster import YarnCluster, YarnRefusedError
from tfapp.engines.yarn.layout import YarnCredentials
from tfapp.engines.yarn.preflight import queue_refused
from tfapp.engines.yarn.register import YarnRegister
from tfapp.engines.yarn.shared_folder import SharedFolder
from tfapp.errors import InvalidPackageError, UnavailableError

if TYPE_CHECKING:
    from tfapp.skein_library import skein


def bundled(definition: Definition) -> dict[str, bytes]:
    """The bundle for other machines, by the name of its file; empty if the cluster has no shared
    folder."""
    bundle = Bundle.of(definition)
    return {bundle.name: bundle.encode()} if bundle and bundle.name else {}


class YarnSubmission:
    """Submits applications of `user`. `clock`: seconds since 1970."""

    def __init__(
        self,
        cluster: YarnCluster,
        shared: SharedFolder,
        register: YarnRegister,
        user: str,
        clock: Callable[[], float],
    ):
        self._cluster = cluster
        self._shared = shared
        self._register = register
        self._user = user
        self._clock = clock

    def submit(self, definition: Definition) -> str:
        """Submits an application with new credentials and returns its id. InvalidPackageError if
        the user may not use the queue."""
        from tfapp.skein_library import skein

        credentials = YarnCredentials(*new_credentials(self._clock()))
        spec = skein.ApplicationSpec.from_dict(dict(definition.spec))
        spec.master.security = skein.Security(
            cert_bytes=credentials.certificate, key_bytes=credentials.key
        )
        # Where its definition cannot be kept it runs all the same: `start` elsewhere says so.
        with ThreadPoolExecutor(1) as pool:
            keeping = pool.submit(self._shared.keep, bundled(definition))
            application = self._submit(spec, definition, keeping)
            try:
                self._register.write(application, definition, credentials)
            except BaseException:
                self._cluster.kill(application)
                raise
        return application

    def _submit(
        self, spec: skein.ApplicationSpec, definition: Definition, keeping: Future[None]
    ) -> str:
        """Submits a specification and returns the id. Files that were deleted on the cluster are
        uploaded again first."""
        try:
            return self._cluster.submit(spec)
        except YarnRefusedError as error:
            problem = queue_refused(spec.queue, self._user, error.reason)
            raise InvalidPackageError((problem,)) from error
        except UnavailableError:
            keeping.exception()  # one at a time
            if not self._shared.restore(definition.sources()):
                raise
            with contextlib.suppress(UnavailableError):
                self._shared.keep(bundled(definition))
            return self._cluster.submit(spec)
