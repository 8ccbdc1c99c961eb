"""The application master in Python, for every engine that has none of its own.

It serves Skein's AppMaster protocol: a key-value store with watches (`store`, `watches`), the
containers' lifecycle by the rules of Skein's own master (`lifecycle`), the list of web pages
(`pages`). `server.Master` runs one application with a `launcher.Launcher`, which the engine gives,
and tells a `launcher.Record` where it serves and how it ended. `files` is for containers that share
no disk with it: they run tfapp.standalone.bootstrap. A `parent` starts the next master when one is
lost, which goes on by the `journal`; `children` are the processes that it keeps meanwhile.

Needs the standard library, grpcio and protobuf, so that it can travel.
"""
