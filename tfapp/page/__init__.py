"""The page of an application: makes a document from a status, and HTML that shows the document.
All modules but `server` are pure functions. On YARN they run in the coordinator's container."""
