"""Closed forms of the paper, vectorised over parameter points in NumPy float64; one bound a file.

Source: "Distributed Learning with Selective State Space Models: Architecture-Aware Convergence
Analysis". Equation numbers are the paper's. Every bound is a sum of products of numbers that are
not negative, so it overflows to infinity and never to NaN; ``overflow.infinite`` names what did.
"""
