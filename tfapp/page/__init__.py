"""The page of an application: its document, made of a status, and the HTML that shows it. Pure, but
for `server`. It travels into containers, where the coordinator serves it on YARN."""
