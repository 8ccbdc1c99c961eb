"""What the engines share whose application master is a process of this machine: the record of runs
under TFAPP_HOME, the master's process, and containers that are processes."""
