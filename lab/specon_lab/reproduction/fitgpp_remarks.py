"""What has to be said beside FitGpp's figures: what was fitted, what the paper does not say, what differs."""

from typing import Final

from specon_lab.reproduction.fitgpp_runs import TRACE

MODES: Final = (
    "Literal: parameters `literal=true` (strict FIFO, preempted jobs stacked), gate off, no budgets, "
    "and a claim on room never ends. Default: the repairs within the manager's budgets and deadlines. "
    "Both decide every simulated minute. FIFO has one mode."
)
QUICK: Final = (
    "With `--quick` it is one workload of 900 jobs on 24 nodes, most of them submitted before the cluster is "
    "full: a first look at what can be seen at all, without verdicts."
)
WORKLOADS: Final = (
    "The paper averages eight workloads of 2^16 jobs (a number that is recalled, not printed); ours are "
    "four of 24,000, configuration A, and two in the default mode. The number belongs to the demands "
    "that were fitted with it: see the section on the number of jobs."
)
FITTED: Final = (
    "FIFO's row is what the workload was fitted to: the deviations of the durations, their lower bound "
    "of one minute, and the demands. The means of 5 and 30 minutes and the mean grace period of 3 "
    "minutes are lost in the text that is publicly readable, and recalled."
)
STRICT: Final = (
    "The 95th percentile of trials tells how the queue works: it is above 1 only if more than 5 % of "
    "the trials wait, and far fewer need a victim. That comes about where FIFO is taken strictly, so "
    "that whoever is behind a trial that waits for its victim's room waits too (literal). In the "
    "default mode nobody is held up by a trial whose room is on its way: 95 % of the trials start at "
    "once, which is outside of the paper's figure on the better side, and best-effort jobs are faster "
    "as well."
)
INTERVALS: Final = (
    "A grace period ends between two of the scheduler's minutes, and its room is given away at the next "
    "one: with a mean of 3 minutes the median interval of a random victim is 4. No delay beyond the "
    "grace period is assumed; that the paper's simulator counts grace periods in fractions of minutes "
    "is our reading."
)
SHARES: Final = (
    "The shares follow from how large trials are beside best-effort jobs, which is not printed. Larger "
    "trials raise the shares of LRTP and RAND towards the paper's, and FitGpp's above it, so the "
    "demands are a compromise."
)
SINGLE_JOBS: Final = (
    "0.01 % of 24,000 jobs are two or three of them: the last figures of FitGpp and RAND count single jobs."
)
GROWTH: Final = (
    "Submissions come from a run under FIFO that is full from beginning to end. Room that a preemptive "
    "policy leaves unused, in grace periods and behind claims, is never made up for, so that its queue "
    "grows as long as jobs are submitted. FIFO's row does not change."
)
STAND_IN: Final = (
    f"The workload is `{TRACE}`. Every grace period is the same in it, and a job of 8 GPUs is a gang of "
    "8 replicas that may be spread, so that no job is too large for what is left on the nodes one by "
    "one: what distinguishes FitGpp's choice of a victim from any other hardly counts. That best-effort "
    "jobs are faster under FitGpp than under FIFO, as on the paper's trace, is therefore not expected "
    "of it."
)
