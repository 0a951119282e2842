"""Models: Mamba2 and attention mixers, language models, backbones. No optimisers, no files."""
