"""What is to be said beside DRAGON's figures: what was chosen, what is not printed, and why ours differ."""

from typing import Final

ALL: Final = (
    (
        "Literal mode: scaling as the published controller does it (docs/algorithms/dragon.md), without gate "
        "and budgets. Default mode: the repairs described there, with the manager's own gate and budgets, "
        "which DRAGON never meets: it neither moves nor preempts."
    ),
    (
        "Inputs, not results: Table 1 and the throughputs of Figure 2. The paper has no model of the "
        "network. The batch size, how often a step sends the parameters, and in which share of the jobs "
        "the slowest worker decides were fitted, for all jobs alike and with other draws than these, to "
        "Figures 6 to 8. So these figures say that one choice of three numbers agrees with so many bars, "
        "and not more. Nothing was fitted to Figures 9 and 10."
    ),
)
ELAPSED: Final = (
    (
        "The paper normalises one run of one set of jobs. Here a seed draws in which of the twelve jobs the "
        "slowest worker decides, and figures are means over these draws. The two baselines have no modes; "
        "their figures stand under default. DRAGON's 0.03 and 0.02 are told apart by the order of their "
        "labels in the text of the paper only."
    ),
    "Under Kubeflow a job of which a pod is pending waits, though it holds GPUs with the others.",
    (
        "Fewer jobs are launched at once with scaling than without: what was idle has been given to those "
        "that run, and is taken from them only when a job has waited for tau, two minutes."
    ),
)
USE: Final = (
    (
        "Share of the GPUs that are allocated, over each scheduler's own makespan; the paper does not say "
        "over which time it averages. Its Kubeflow is full for an hour and then runs one job on one GPU "
        "for another. Here that happens in those runs only in which the last job's one worker comes to "
        "another node than its parameter server, which the order in which others end before decides. So the "
        "figure has two values, and the mean over all runs lies between; the row without a verdict is the "
        "mean of the runs that go as the paper's did."
    ),
)
RUNNING: Final = (
    (
        "The least and the most of the twelve jobs of each run, then means over the runs; extremes of a "
        "single run, as the paper's, scatter."
    ),
    "Below 1 a job runs for longer under DRAGON, which has shrunk it for others.",
)
SWEEP: Final = (
    (
        "The paper prints no number beside the curves: what is compared is the sign, where the seeds agree "
        "on it. Running time is without restarts; waiting time is compared by its sum over the seeds. Where "
        "the other scheduler hardly waits, a percentage of that says nothing. How much a job has to do is "
        "not printed, so an intensity here is not necessarily the load that it was there."
    ),
)
UNIT: Final = (
    (
        "Table 1 says seconds. Then all twelve jobs come within a minute and wait for a part of their time "
        "that Figure 7 does not have; nor would they fill the two hours of Figure 8."
    ),
)
