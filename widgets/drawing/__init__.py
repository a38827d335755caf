"""How things are drawn: colours, symbols, bars, charts, and figures as text."""
