"""Jobs as a whole: held, admitted, scaled and preempted through their owners' objects and gated pods."""
