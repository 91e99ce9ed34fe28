"""Results as a person reads them.

- `findings`: sentences about a valuation, and warnings of what could be misread.
- `text`: valuations, predictions, plans and claims in the terminal.
- `collecting`: a batch of candidates in the terminal.
- `market`: price lists, summaries, matches and checks in the terminal.
- `comparison`: a comparison of runs, in the terminal and as a page.
- `page`: a report as one HTML file and one JSON file, whatever it is about.
- `svg`: the pictures of such a page.
- `run_facts`: what the report of a run is made from: values, tables, and what retraining showed.
- `run_report`: the page about a run.
- `run_sections`: the parts of that page that have pictures and tables.
- `market_report`: the pages about a price list and about a buyer's check.
- `reproduction_report`: the page about the paper's experiments.
- `notebook`: results in a notebook.
"""
