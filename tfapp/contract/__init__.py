"""Names and data formats that are shared with containers: files, environment variables, store keys,
JSON.

Standard library only, because this package is shipped with every application. Everything that the
compiler writes for runner or coordinator, and everything that the coordinator publishes for
clients, is declared here and nowhere else. Modules are loaded as needed: importing a class costs
about 1 ms.
"""
