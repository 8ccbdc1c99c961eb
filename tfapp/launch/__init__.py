"""The part that the command line and the Python call share: check a package, compile it, ship it,
start it, follow it to its end, stop it. Usable from any thread and with any text stream: no flags,
no signals, no terminal."""
