"""Programs that run where tfapp is not installed, or must be small. Each is one file that is sent
there or run by its path, with the standard library alone, also by the oldest Python that it may
meet."""
