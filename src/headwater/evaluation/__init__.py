"""Does what was learned hold on held-out people? Replays, estimates from logs, calibration."""
