"""How a program is shipped: its kind, what is pickled, which modules are shipped with it, and what
its interpreter must have installed. All of this is determined before submission."""
