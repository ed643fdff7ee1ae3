"""Benchmarks: everything is measured beside its floor in the same run, and told as a ratio.

The machine drifts, so that a figure alone says little; a test never asserts one.
"""
