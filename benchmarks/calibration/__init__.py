"""Simulation-based calibration of the estimators that draw from posteriors: `python -m benchmarks.calibration`."""
