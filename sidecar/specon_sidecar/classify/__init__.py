"""Is a training job still growing? Curve and smoothing, two classifiers, overfitting, what remains. Pure.

What both programs and all rooms speak of is here; how it is found out is in the modules.
"""

from specon_sidecar.classify.judgement import Category, ClassifierSettings, Interval, Judgement

__all__ = ["Category", "ClassifierSettings", "Interval", "Judgement"]
