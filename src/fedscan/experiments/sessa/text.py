"""The summary that is printed when a run ends."""

from fedscan.experiments.sessa.drawing import LABELS
from fedscan.experiments.sessa.numbers import Found, chosen, selected


def sessa_text(found: Found) -> str:
    """Say what the mixers came to.

    Args:
        found: tables.

    Returns:
        A line per task and mixer, then what the theory says.
    """
    rows, best = selected(found), chosen(found.runs)
    lines = ["Sessa: attention inside a feedback loop"]
    for task, rules in found.baselines.items():
        whole = rows[(rows["task"] == task) & (rows["group"] == "all") & (rows["split"] == "test")]
        whole = whole[whole["width"] == whole["width"].max()]
        known = ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in rules.items())
        ceilings = whole["ceiling"].dropna()
        if len(ceilings):
            known += f", best possible {ceilings.iloc[0]:.3f}"
        lines.append(f"  {task}" + (f" ({known})" if known else ""))
        for mixer, own in whole.groupby("mixer", sort=False):
            of = best[(best["task"] == task) & (best["mixer"] == mixer)]
            parts = [
                f"{'' if factor == 1 else f'x{factor} '}{part['accuracy'].mean():.3f}"
                for factor, part in own.groupby("factor")
            ]
            lines.append(
                f"    {LABELS[str(mixer)]:<26} accuracy {', '.join(parts)}"
                f"  ({of['seed'].nunique()} seed(s), {int(of['parameters'].iloc[-1]):,} parameters)"
            )
    failed = int((found.runs["status"] == "failed").sum())
    if failed:
        lines.append(f"  {failed} of {len(found.runs)} runs became non-finite")
    broken = int(found.claims["violated"].sum())
    kinds = found.claims["claim"].nunique()
    lines.append(f"  {kinds} claims on {len(found.claims)} instances, {broken} violated")
    return "\n".join(lines) + "\n"
