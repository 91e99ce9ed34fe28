"""Results as a person reads them.

- `findings`: sentences about a valuation, and warnings of what could be misread.
- `text`: valuations, predictions, plans and claims in the terminal.
- `market`: price lists, summaries, matches and checks in the terminal.
- `page`: a report as one HTML file and one JSON file, whatever it is about.
- `svg`: the pictures of such a page.
- `run_report`: the report of a run folder.
"""
