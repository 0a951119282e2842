"""Quantities measured on parameters and updates."""
