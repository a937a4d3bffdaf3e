"""How long tests wait for a process that should end: so long that a busy machine is no reason not to."""

HANG_SECONDS = 3600
