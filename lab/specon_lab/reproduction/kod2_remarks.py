"""What is to be said about KOD2's figures: what is missing in print, what was chosen, why they differ."""

from typing import Final

COMPLETION_REMARKS: Final = (
    (
        "Each seed is a table of requests of its own; the paper had one, which is not printed. All 20 bars "
        "are a picture; only the largest is told, 84 % for VGG-16 with batch 128."
    ),
    (
        "The largest reduction is of the size that is told, but not in the cell where it is told to be. "
        "Here what a step sends does not depend on the batch, so that small batches wait for the network "
        "most, and ResNet-50, which has the most parameters, waits more than VGG-16. With a larger batch "
        "the reduction falls. For a peak at batch 128 deadlocks would have to matter more than the network, "
        "as they do where jobs are short beside the time-out. Such a workload was not found that also gives "
        "the other figures."
    ),
    (
        "A job of the baseline that is put back counts until it is complete in the end. The last row counts "
        "it until it was put back for the first time, as the paper's tasks that were terminated; that is "
        "less."
    ),
)
USE_REMARKS: Final = (
    (
        "Both are means until KOD2 is through: the paper's baseline goes on beyond what its figure shows. "
        "Over a longer time the increase is smaller, down to none when the baseline is through, for the "
        "work is the same."
    ),
    (
        "The paper measured what processes use. A worker that waits for the network uses little, but not "
        "nothing: counting all cores that training jobs hold is too little of a difference, counting only "
        "what the workers compute is too much. The paper's figure is to be expected between the two."
    ),
    "The work that a job computes is spread evenly over the time from its first training to its end.",
)
BASELINE_REMARKS: Final = (
    (
        "Baseline: the default scheduler of Kubernetes; nodes as if at random; pods retried as if at "
        "random; a gang that has been in part for half an hour is put back and tries again."
    ),
    (
        "How long the baseline goes on was what the workload was fitted to, with the seeds 0 to 7; the "
        "figures here are of other seeds. Several speeds of the workers and several time-outs were tried "
        "then, and the headline reductions were seen in doing so. Retries as if at random were chosen after "
        "both orders were tried."
    ),
    (
        "Where pods are retried in the order of their jobs, the oldest gang gets the room sooner or "
        "later: hardly any deadlock, and a smaller reduction. The paper calls the order FIFO and reports "
        "deadlocks, which do not go together."
    ),
)
SWEEP_REMARKS: Final = (
    (
        "STARVELIMIT and the pause between a change and growth are not given in the paper. The defaults are "
        "those of the ancestors and of caution: none was chosen by these rows. In the paper's workload a "
        "longer STARVELIMIT is better if anything; so is a shorter pause, at the price of more scalings."
    ),
)
REMARKS: Final = (
    (
        "Literal mode: Algorithms 1 to 3 as printed where they can be carried out, without gate and "
        "budgets. Default mode: the repairs of docs/algorithms/kod2.md, with the manager's own gate and "
        "budgets."
    ),
    (
        "Figure 4, training time by number of workers, is an assumption of the workload (n workers are "
        "n^0.9 times as fast), no result."
    ),
)
