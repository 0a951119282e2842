"""The analysed layer (paper, Section 3): a reference with autograd, a CPU kernel, a GPU kernel."""
