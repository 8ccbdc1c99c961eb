"""How a program travels: what it is, what of it is pickled, which modules go along, and what its
interpreter there must have. All of it is known before anything is submitted."""
