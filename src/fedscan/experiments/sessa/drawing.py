"""Names and colours of the mixers, the same in every figure and text."""

LABELS = {
    "sessa": "Sessa",
    "sessa_no_feedback": "Sessa without feedback",
    "sessa_fixed_gain": "Sessa, one gain",
    "sessa_uniform": "Sessa, uniform routing",
    "sessa_rope_feedback": "Sessa, rotary feedback",
    "mha": "attention",
    "mamba2": "Mamba2 in the gated block",
    "mamba2_plain": "Mamba2 in its own block",
}
# Okabe and Ito's colours: what is compared in the paper first.
COLORS = {
    "sessa": "#D55E00",
    "mha": "#0072B2",
    "mamba2": "#009E73",
    "sessa_no_feedback": "#E69F00",
    "sessa_fixed_gain": "#CC79A7",
    "sessa_uniform": "#56B4E9",
    "sessa_rope_feedback": "#999999",
    "mamba2_plain": "#000000",
}
