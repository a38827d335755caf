"""Answers as files: a decision as Markdown or HTML, tables as CSV, the charts of the study as SVG."""
