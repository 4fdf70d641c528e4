"""What to run: sizing, preemption risk, effective cost, fleet plans. Pure: data in, data out."""
