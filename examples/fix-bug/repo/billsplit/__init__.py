"""Splits a bill, to the cent."""
