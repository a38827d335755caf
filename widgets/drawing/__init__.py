"""Drawing: colours, symbols, bars, charts, and figures as text."""
