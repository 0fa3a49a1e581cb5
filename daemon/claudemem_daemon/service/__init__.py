"""systemd and launchd: what is written, started and removed."""
