"""When will a waiting job start? Learnt from how long jobs of the like ran, by playing the queue forward."""
