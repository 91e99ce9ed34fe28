"""A run: workers compute draws until a stop rule ends the run, and a folder keeps them.

- `run`: the loop that computes, stores and counts draws.
- `marginals`: what one draw computes.
- `metric_folders`: the run folders of a run with several metrics.
- `workers`: parallel computation of draws.
- `run_folder`: the files of a run.
- `stopping`: stop rules.
- `planning`: how many draws a wanted precision takes.
- `progress`: the progress bar.
- `source_tables`: the tables that a run was made from, read again.
- `label_values`: the value of a row with every label, and the expected value over them.
"""
