"""Samples, telemetry and outputs become what was measured: phases, figures, accuracy, conditions, validity."""
