"""The scheduler with thousands of nodes and jobs: its passes, what watching costs, and answers to those who ask."""
